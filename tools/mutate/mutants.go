package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// mutant is one small break of a file: other text between two places.
type mutant struct {
	file *sourceFile
	// function is where it is; nil when it is in no function.
	function *ast.FuncDecl
	from, to int
	by       string
	line     int
	// what says in which function what became what. It has no line in it, so that it
	// stays the same when other lines change.
	what string
	// id tells the mutants of a run apart; the first has 1.
	id int
}

// sourceFile is a file that is broken.
type sourceFile struct {
	path    string
	content []byte
	fset    *token.FileSet
	tree    *ast.File
}

// mutator finds the mutants of one file.
type mutator struct {
	*sourceFile

	function *ast.FuncDecl
	found    []*mutant
}

// mutantsOf are all mutants of a file that can be parsed.
func mutantsOf(path string, content []byte) ([]*mutant, error) {
	file := &sourceFile{path: path, content: content, fset: token.NewFileSet()}
	var err error
	if file.tree, err = parser.ParseFile(file.fset, path, content, parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	m := &mutator{sourceFile: file}
	for _, declaration := range file.tree.Decls {
		m.function, _ = declaration.(*ast.FuncDecl)
		if m.function != nil {
			m.returns(m.function.Type, m.function.Body)
		}
		ast.Inspect(declaration, m.visit)
	}
	return m.found, nil
}

// alone is the file with this one break in it.
func (m *mutant) alone() []byte {
	return slices.Concat(m.file.content[:m.from], []byte(m.by), m.file.content[m.to:])
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
		m.add(element, from, to, "")
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

// replace puts other text in the place of a node; none takes the node away.
func (m *mutator) replace(n ast.Node, by string) {
	m.add(n, m.offset(n.Pos()), m.offset(n.End()), by)
}

// add notes a mutant, unless the parser already refuses it.
func (m *mutator) add(n ast.Node, from, to int, by string) {
	became, place := "`"+brief(by)+"`", "declarations"
	if by == "" {
		became = "nothing"
	}
	if m.function != nil {
		place = m.function.Name.Name
	}
	found := &mutant{
		file: m.sourceFile, function: m.function, from: from, to: to, by: by,
		line: m.fset.Position(n.Pos()).Line, what: place + ": `" + brief(m.text(n)) + "` becomes " + became,
	}
	if line := m.lineOf(from); len(line) > to-from {
		found.what += " in `" + brief(line) + "`"
	}
	if _, err := parser.ParseFile(token.NewFileSet(), m.path, found.alone(), parser.SkipObjectResolution); err == nil {
		m.found = append(m.found, found)
	}
}

// lineOf is the line of the source at an offset.
func (f *sourceFile) lineOf(offset int) string {
	begin := bytes.LastIndexByte(f.content[:offset], '\n') + 1
	line, _, _ := bytes.Cut(f.content[begin:], []byte("\n"))
	return strings.TrimSpace(string(line))
}

func (f *sourceFile) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *sourceFile) text(n ast.Node) string {
	return string(f.content[f.offset(n.Pos()):f.offset(n.End())])
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
