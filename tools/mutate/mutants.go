package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// mutant is a file with one small break in it.
type mutant struct {
	file string
	line int
	// what says in which function what became what. It has no line in it, so that it
	// stays the same when other lines change.
	what    string
	content []byte
}

// mutator finds the mutants of one file.
type mutator struct {
	file     string
	source   []byte
	fset     *token.FileSet
	function string
	found    []mutant
}

// mutantsOf are all mutants of a file.
func mutantsOf(file string, source []byte) ([]mutant, error) {
	m := &mutator{file: file, source: source, fset: token.NewFileSet()}
	tree, err := parser.ParseFile(m.fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, declaration := range tree.Decls {
		m.function = "declarations"
		if f, ok := declaration.(*ast.FuncDecl); ok {
			m.function = f.Name.Name
			m.returns(f.Type, f.Body)
		}
		ast.Inspect(declaration, m.visit)
	}
	return m.found, nil
}

func (m *mutator) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncLit:
		m.returns(n.Type, n.Body)
	case *ast.IfStmt:
		m.negate(n.Cond)
	case *ast.ForStmt:
		m.negate(n.Cond)
	case *ast.SwitchStmt:
		m.cases(n)
	case *ast.BlockStmt:
		m.statements(n.List)
	case *ast.CaseClause:
		m.statements(n.Body)
	case *ast.BinaryExpr:
		m.operator(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			m.replace(n, m.text(n.X))
		}
	case *ast.CompositeLit:
		m.elements(n.Elts)
	case *ast.BasicLit:
		m.number(n)
	case *ast.Ident:
		if other, ok := swaps[n.Name]; ok {
			m.replace(n, other)
		}
	case *ast.ImportSpec:
		return false
	}
	return true
}

// swaps are names that take each other's place.
var swaps = map[string]string{"true": "false", "false": "true", "min": "max", "max": "min"}

// operators are what takes the place of an operator.
var operators = map[token.Token][]token.Token{
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
}

func (m *mutator) operator(e *ast.BinaryExpr) {
	for _, other := range operators[e.Op] {
		m.replace(e, m.text(e.X)+" "+other.String()+" "+m.text(e.Y))
	}
}

// negate turns a condition round, unless another mutation does so already.
func (m *mutator) negate(condition ast.Expr) {
	switch c := condition.(type) {
	case nil:
		return
	case *ast.UnaryExpr:
		return
	case *ast.BinaryExpr:
		if c.Op != token.LAND && c.Op != token.LOR {
			return
		}
	}
	m.replace(condition, "!("+m.text(condition)+")")
}

// number raises a number by one.
func (m *mutator) number(literal *ast.BasicLit) {
	if value, err := strconv.ParseInt(literal.Value, 0, 64); err == nil && literal.Kind == token.INT {
		m.replace(literal, strconv.FormatInt(value+1, 10))
	}
}

// cases leaves out one case after the other, and turns conditions round.
func (m *mutator) cases(s *ast.SwitchStmt) {
	for _, statement := range s.Body.List {
		clause := statement.(*ast.CaseClause)
		m.replace(clause, "")
		if len(clause.List) > 1 {
			m.elements(clause.List)
		}
		for _, condition := range clause.List {
			if s.Tag == nil {
				m.negate(condition)
			}
		}
	}
}

// statements leaves out one statement after the other.
func (m *mutator) statements(list []ast.Stmt) {
	for _, statement := range list {
		switch s := statement.(type) {
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				m.replace(s, "")
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.BranchStmt, *ast.ReturnStmt,
			*ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt:
			m.replace(s, "")
		}
	}
}

// elements leaves out one element of a list after the other, its comma with it.
func (m *mutator) elements(list []ast.Expr) {
	for i, element := range list {
		from, to := m.offset(element.Pos()), m.offset(element.End())
		switch {
		case i+1 < len(list):
			to = m.offset(list[i+1].Pos())
		case i > 0:
			from = m.offset(list[i-1].End())
		}
		m.cut(element, from, to)
	}
}

// returns changes what a function returns, where its type says how.
func (m *mutator) returns(signature *ast.FuncType, body *ast.BlockStmt) {
	if signature.Results == nil {
		return
	}
	var results []ast.Expr
	for _, field := range signature.Results.List {
		results = append(results, slices.Repeat([]ast.Expr{field.Type}, max(1, len(field.Names)))...)
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			if len(n.Results) == len(results) {
				for i, value := range n.Results {
					m.returned(results[i], value)
				}
			}
		}
		return true
	})
}

func (m *mutator) returned(result, value ast.Expr) {
	text := m.text(value)
	switch result := result.(type) {
	case *ast.StarExpr:
		if text != "nil" {
			m.replace(value, "nil")
		}
	case *ast.Ident:
		switch {
		case result.Name == "bool" && swaps[text] == "":
			m.negate(value)
		case result.Name == "string" && text != `""`:
			m.replace(value, `""`)
		}
	}
}

func (m *mutator) offset(p token.Pos) int { return m.fset.Position(p).Offset }

func (m *mutator) text(n ast.Node) string {
	return string(m.source[m.offset(n.Pos()):m.offset(n.End())])
}

// replace puts other text in the place of a node; none takes the node away.
func (m *mutator) replace(n ast.Node, by string) {
	m.add(n, m.offset(n.Pos()), m.offset(n.End()), by)
}

// cut takes a node away, with what is around it.
func (m *mutator) cut(n ast.Node, from, to int) { m.add(n, from, to, "") }

func (m *mutator) add(n ast.Node, from, to int, by string) {
	became := "`" + brief(by) + "`"
	if by == "" {
		became = "nothing"
	}
	m.found = append(m.found, mutant{
		file: m.file, line: m.fset.Position(n.Pos()).Line,
		what:    m.function + ": `" + brief(m.text(n)) + "` becomes " + became,
		content: slices.Concat(m.source[:from], []byte(by), m.source[to:]),
	})
}

// maxBrief bounds what is shown of a piece of source.
const maxBrief = 90

// brief shows a piece of source in one line.
func brief(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxBrief {
		return text[:maxBrief] + "..."
	}
	return text
}
