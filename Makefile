# Every target does its own set-up: on a fresh Linux machine with Go and git, "make test"
# is all it takes. What Go cannot bring, lab/prerequisites looks at first.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

CONTROLLER_GEN := go tool -modfile=tools/generate/go.mod controller-gen
LINT := go tool -modfile=tools/lint/go.mod golangci-lint

# Every Go module of the repository.
MODULES := $(sort $(dir $(shell git ls-files --cached --others --exclude-standard 'go.mod' '*/go.mod')))
# Those with code of ours; the others only pin what is built from elsewhere.
CODE_MODULES := . lab lab/devchain

# How the packages of the operator's module are tested. What is in neither list is tested
# with the race detector.
TESTS := github.com/sei-operator/sei-operator/test
# Without the race detector: whoever acts here does so on one goroutine, or is a program that
# is built without it, such as the API server; it would only make the clients slow. Or it
# is a search, which finds more the more it tries; its packages have tests of their own.
WITHOUT_RACE := $(addprefix $(TESTS)/,faults access search)
# Tests with a live chain. They come last and one after the other: what else happens on the
# machine happens to the chain, too. What they test runs in containers of its own.
ALONE := $(addprefix $(TESTS)/,e2e chaos)
# Not from the go command's cache: what these tests start is built by themselves, out of
# lab, cmd and config, and that cache does not know when it changed.
NOT_CACHED := -count=1

# Whoever is root has to test everything, and whoever is not is told what is left out.
ROOT := $(filter 0,$(shell id -u))
test stories chaos: export SEI_LAB_NODE = $(if $(ROOT),required)

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: prerequisites-of-tests
prerequisites-of-tests:
	@lab/prerequisites --install --without-root make test

.PHONY: test
test: prerequisites-of-tests verify lint ## Everything CI checks: generated files, lint, and all tests.
	go run -C lab . kube build
	$(if $(ROOT),go run -C lab . build,@echo "*** NOTHING OF A REAL NODE IS TESTED HERE: you are not root")
	@echo "== go test -race"
	@go test -race -timeout 60m $$(go list ./... | grep -v '^$(TESTS)/')
	@go test -race $(NOT_CACHED) -timeout 60m $$(go list ./test/... | grep -vFx "$$(printf '%s\n' $(WITHOUT_RACE) $(ALONE))")
	@echo "== go test (without the race detector)"
	@go test $(NOT_CACHED) -timeout 60m $(WITHOUT_RACE)
	@for module in lab lab/devchain; do \
		echo "== go test -race ($$module)"; \
		(cd $$module && go test -race $(NOT_CACHED) -timeout 60m ./...); \
	done
	@echo "== go test (a real cluster and a live chain)"
	go test -v $(NOT_CACHED) -p 1 -timeout 60m $(ALONE)

.PHONY: lab-up
lab-up: ## Start a real Kubernetes cluster on this machine, with the images of this tree; needs root.
	$(if $(ROOT),@lab/prerequisites --install make lab-up)
	go run -C lab . up

.PHONY: lab-down
lab-down: ## End it, and remove everything of it but the logs.
	go run -C lab . down

.PHONY: demo
demo: ## Show the operator at work: a real cluster, a chain, and the stories it is for; needs root.
	@lab/prerequisites --install make demo
	@echo "compiling the demo"
	@go run ./test/demo

.PHONY: demo-down
demo-down: lab-down ## End the demo, with its cluster.

.PHONY: stories
stories: ## Tell all stories end to end, each with its time; needs root. "make test" tells them too.
	@lab/prerequisites --install make stories
	go test ./test/e2e -v -count=1 -timeout 60m

.PHONY: chaos
chaos: ## Let faults happen to a live chain under load: FOR=2m is how long, SEED=1 which; needs root.
	@lab/prerequisites --install make chaos
	go test ./test/chaos -v -count=1 -timeout 0 -args -seed=$(or $(SEED),1) -for=$(or $(FOR),2m)

REPOSITORY ?= sei-operator.lab
TAG ?= dev

.PHONY: images
images: ## Write the container images as OCI archives to bin/images; REPOSITORY and TAG name them.
	go run -C lab . images --out $(CURDIR)/bin/images --repository $(REPOSITORY) --tag $(TAG)

.PHONY: test-fast
test-fast: ## What to run between edits: the tests of the operator itself.
	go vet ./...
	go test ./...

.PHONY: bench-sidecar
bench-sidecar: ## Print the sidecar's figures: restart < 50 ms, task < 5 ms, new supervisor < 100 ms, serve < 30 MB, run < 15 MB, binary < 30 MB.
	go test ./cmd/sei-sidecar -run '^$$' -bench . -benchtime 50x

.PHONY: bench-controller
bench-controller: ## Print the controller's figures: docs/performance.md says what they ought to be.
	go run -C lab . kube build
	go test ./test/scale -run '^$$' -bench . -benchtime 1x -timeout 60m

.PHONY: hostile
hostile: ## Delete and edit everything at every step of every operation; "make test" does a third of it.
	go run -C lab . kube build
	go test ./test/hostile -v -all -timeout 30m

.PHONY: mutate
mutate: ## Change the decisions of internal/plan one by one; print which changes no test notices.
	go run ./tools/mutate -argued docs/design/mutants.md ./internal/plan -rapid.checks=20 -rapid.seed=1 -rapid.shrinktime=1ms -rapid.nofailfile

.PHONY: test-chain
test-chain: ## The life of a chain under load, long: ten minutes by its own clock before an upgrade (SPAN=10m).
	go test -C lab/devchain ./likeness -run '^TestChain$$' -v -timeout 60m -args -span=$(or $(SPAN),10m)

.PHONY: lint
lint: ## Check the architecture and the habits of the code base.
	@for module in $(CODE_MODULES); do \
		echo "== golangci-lint ($$module)"; \
		(cd $$module && go tool -modfile=$(CURDIR)/tools/lint/go.mod golangci-lint run --config $(CURDIR)/.golangci.yml ./...); \
	done

.PHONY: generate
generate: ## Write deepcopy functions, apply configurations, CRDs and the operator's role anew.
	rm -rf api/v1alpha1/applyconfiguration
	$(CONTROLLER_GEN) object crd applyconfiguration paths=./api/v1alpha1 output:crd:dir=config/crd
	go tool -modfile=tools/generate/go.mod oapi-codegen -config internal/sidecar/api/oapi-codegen.yaml internal/sidecar/api/openapi.yaml
	$(CONTROLLER_GEN) rbac:roleName=sei-operator paths=./internal/... output:rbac:dir=config/rbac

.PHONY: fmt
fmt: ## Format the Go code.
	@for module in $(CODE_MODULES); do \
		(cd $$module && go tool -modfile=$(CURDIR)/tools/lint/go.mod golangci-lint fmt --config $(CURDIR)/.golangci.yml ./...); \
	done

.PHONY: tidy
tidy: ## Tidy every go.mod.
	@for module in $(MODULES); do (cd $$module && go mod tidy); done

.PHONY: verify
verify: ## Fail when anything generated, formatted or tidied is out of date.
	hack/verify
