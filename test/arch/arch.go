// Package arch holds the rules about the shape of the code that its tests enforce: which package may
// import which, and how long files and functions may get. The functions are pure: they take what
// `go list` and the parser say and return violations as sentences, so that planted violations test
// the rules themselves.
package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// Module is the path of the operator's module; the rules name its packages relative to it.
const Module = "example.com/redis-operator"

// Package is what the import rules know of a package: its path and its direct imports (those of its
// test files are not among them).
type Package struct {
	ImportPath string
	Imports    []string
}

// Rule says what the packages under Path may import besides packages of the same Path.
type Rule struct {
	// Path is relative to Module. A trailing "/..." takes in every package below it.
	Path string
	// Allowed are import paths, relative to Module when they begin with "./"; a trailing "/..." takes
	// in every package below. "std" is the standard library.
	Allowed []string
	// Denied wins over Allowed.
	Denied []string
}

// matches tells whether an import path falls under a pattern of a Rule.
func matches(pattern, path string) bool {
	if pattern == "std" {
		first, _, _ := strings.Cut(path, "/")
		return !strings.Contains(first, ".")
	}
	if rest, ok := strings.CutPrefix(pattern, "./"); ok {
		pattern = Module + "/" + rest
	}
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	return path == pattern
}

// ruleFor returns the first rule whose Path takes in the package.
func ruleFor(rules []Rule, path string) (Rule, bool) {
	i := slices.IndexFunc(rules, func(r Rule) bool { return matches("./"+r.Path, path) })
	if i < 0 {
		return Rule{}, false
	}
	return rules[i], true
}

// ImportViolations returns one sentence for each import that no rule allows, and for each package
// without a rule.
func ImportViolations(packages []Package, rules []Rule) []string {
	var found []string
	for _, p := range packages {
		rule, ok := ruleFor(rules, p.ImportPath)
		if !ok {
			found = append(found, fmt.Sprintf("%s has no line in the import table", p.ImportPath))
			continue
		}
		allows := func(path string) bool {
			is := func(pattern string) bool { return matches(pattern, path) }
			return slices.ContainsFunc(rule.Allowed, is) && !slices.ContainsFunc(rule.Denied, is)
		}
		for _, path := range p.Imports {
			if !allows(path) {
				found = append(found, fmt.Sprintf("%s imports %s, which the line %q of the import table does not allow",
					p.ImportPath, path, rule.Path))
			}
		}
	}
	return found
}

// Limits are the greatest lengths in lines.
type Limits struct {
	File, TestFile, Function int
}

// File is one parsed source file.
type File struct {
	Path string
	Set  *token.FileSet
	Tree *ast.File
}

// SizeViolations returns one sentence for a file or function of it that is longer than the limits.
func SizeViolations(f File, limits Limits) []string {
	var found []string
	limit := limits.File
	if strings.HasSuffix(f.Path, "_test.go") {
		limit = limits.TestFile
	}
	if lines := f.Set.File(f.Tree.Pos()).LineCount(); lines > limit {
		found = append(found, fmt.Sprintf("%s has %d lines, more than %d: split it by concept", f.Path, lines, limit))
	}
	for _, declaration := range f.Tree.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := f.Set.Position(function.End()).Line - f.Set.Position(function.Pos()).Line + 1
		if lines > limits.Function {
			found = append(found, fmt.Sprintf("%s: %s has %d lines, more than %d", f.Path, function.Name.Name, lines, limits.Function))
		}
	}
	return found
}

// ImportsBoth tells whether the file imports something under each of the two patterns.
func ImportsBoth(f File, one, other string) bool {
	under := func(pattern string) bool {
		return slices.ContainsFunc(f.Tree.Imports, func(s *ast.ImportSpec) bool {
			return matches(pattern, strings.Trim(s.Path.Value, `"`))
		})
	}
	return under(one) && under(other)
}

// Waivers returns one sentence for each nolint comment of the file that waives a limit of size or
// complexity, or that does not name its linter and its reason.
func Waivers(f File) []string {
	var found []string
	for _, group := range f.Tree.Comments {
		for _, comment := range group.List {
			for _, wrong := range judgeComment(comment.Text) {
				found = append(found, fmt.Sprintf("%s:%d: %s", f.Path, f.Set.Position(comment.Pos()).Line, wrong))
			}
		}
	}
	return found
}

func judgeComment(text string) []string {
	waiver, ok := strings.CutPrefix(text, "//nolint")
	if !ok {
		return nil
	}
	return judgeWaiver(waiver)
}

// judgeWaiver says what is wrong with a nolint comment, given what follows the word.
func judgeWaiver(waiver string) []string {
	var wrong []string
	names, reason, _ := strings.Cut(strings.TrimPrefix(waiver, ":"), " ")
	if !strings.HasPrefix(waiver, ":") || !strings.Contains(reason, "//") {
		wrong = append(wrong, "a nolint names its linter and its reason")
	}
	for _, name := range strings.Split(names, ",") {
		if slices.Contains([]string{"all", "funlen", "cyclop", "gocognit", "gocyclo", "revive"}, name) {
			wrong = append(wrong, "nothing waives "+name)
		}
	}
	return wrong
}
