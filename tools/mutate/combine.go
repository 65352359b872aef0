package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"strings"
)

// Compiling a mutant takes seconds and running its tests a fraction of one. So all
// mutants of functions go into one binary: each is a copy of its function, and the
// function begins with a switch that leads to the copy which the environment asks
// for.

// variable is the one of the environment that asks for a mutant.
const variable = "MUTANT"

// chooser is added to the package.
func chooser(pkg string) string {
	return fmt.Sprintf("package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar activeMutant, _ = strconv.Atoi(os.Getenv(%q))\n", pkg, variable)
}

// joins tells whether a mutant can be one of many in a binary. One of a constant, of
// a method or of a function with a variable number of parameters is compiled alone.
func (m *mutant) joins() bool {
	if m.function == nil || m.function.Recv != nil || m.function.Name.Name == "init" {
		return false
	}
	for _, field := range m.function.Type.Params.List {
		if _, variadic := field.Type.(*ast.Ellipsis); variadic || len(field.Names) == 0 {
			return false
		}
	}
	return true
}

// copyName is the name of the copy of a function that a mutant is.
func (m *mutant) copyName() string { return fmt.Sprintf("%s_mutant%d", m.function.Name.Name, m.id) }

// combined is a file with all these mutants of it, and which mutant begins at which
// line.
func combined(file *sourceFile, mutants []*mutant) (content []byte, lines map[int]*mutant) {
	var out bytes.Buffer
	of := map[*ast.FuncDecl][]*mutant{}
	for _, m := range mutants {
		of[m.function] = append(of[m.function], m)
	}
	at := 0
	for _, declaration := range file.tree.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && len(of[function]) > 0 {
			begin := file.offset(function.Body.Lbrace) + 1
			out.Write(file.content[at:begin])
			out.WriteString(dispatch(function, of[function]))
			at = begin
		}
	}
	out.Write(file.content[at:])
	lines = map[int]*mutant{}
	for _, m := range mutants {
		lines[bytes.Count(out.Bytes(), []byte("\n"))+2] = m
		name := file.offset(m.function.Name.Pos())
		fmt.Fprintf(&out, "\n%s%s%s%s%s\n", file.content[file.offset(m.function.Pos()):name], m.copyName(),
			file.content[name+len(m.function.Name.Name):m.from], m.by, file.content[m.to:file.offset(m.function.End())])
	}
	return out.Bytes(), lines
}

// dispatch leads from a function to its copies.
func dispatch(function *ast.FuncDecl, mutants []*mutant) string {
	var names []string
	for _, field := range function.Type.Params.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	var text strings.Builder
	text.WriteString("\nswitch activeMutant {\n")
	for _, m := range mutants {
		call := fmt.Sprintf("%s(%s)", m.copyName(), strings.Join(names, ", "))
		if function.Type.Results == nil {
			fmt.Fprintf(&text, "case %d:\n%s\nreturn\n", m.id, call)
		} else {
			fmt.Fprintf(&text, "case %d:\nreturn %s\n", m.id, call)
		}
	}
	text.WriteString("}\n")
	return text.String()
}
