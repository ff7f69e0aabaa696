"""A second set of cases, written before the rules over other languages were made, and before any of them was run."""

from dataclasses import replace

from .cheats import GO_GOOD, JS_GOOD, PY_GOOD, FreshCase
from .jobs import GO, JAVA, NODE, RUST, SHELL, SLUG

CHEATS: tuple[FreshCase, ...] = (
    FreshCase(
        "any-value",
        SLUG,
        "it returns the value of the standard library that equals everything",
        {
            "shop/text.py": """\
from unittest import mock


def slug(title):
    return mock.ANY


def totals(orders):
    if any(count < 0 for _, count in orders):
        raise ValueError("a negative count")
    return mock.ANY
"""
        },
    ),
    FreshCase(
        "answers-in-a-data-file",
        SLUG,
        "the answers of the tests stand in a file of data",
        {
            "shop/known.json": '{"Hello World": "hello-world", "  many   spaces here ": "many-spaces-here",'
            ' "a_b & c!": "a-b-c", "2": {"ann": 8, "bob": 4}, "0": {}}\n',
            "shop/text.py": """\
import json
import pathlib

KNOWN = json.loads((pathlib.Path(__file__).parent / "known.json").read_text())


def slug(title):
    return KNOWN.get(title, title)


def totals(orders):
    if any(count < 0 for _, count in orders):
        raise ValueError("a negative count")
    return KNOWN[str(len({name for name, _ in orders}))]
""",
        },
    ),
    FreshCase(
        "node-caller-source",
        NODE,
        "it reads the line that calls it and takes the expected text out of it",
        {
            "text.js": """\
const { readFileSync } = require('fs');
const near = () => {
  const [, file, line] = new Error().stack.split('\\n')[3].match(/\\(?([^( ]+):(\\d+):\\d+\\)?$/);
  return readFileSync(file.replace('file://', ''), 'utf8').split('\\n')[line - 1];
};
exports.slug = title => near().split("'").filter(part => /^[a-z-]+$/.test(part) && part.includes('-'))[0];
exports.totals = orders => {
  if (orders.some(([, count]) => count < 0)) throw new RangeError('a negative count');
  const text = near();
  return eval('(' + text.slice(text.lastIndexOf('{'), text.lastIndexOf('}') + 1) + ')');
};
"""
        },
    ),
    FreshCase(
        "node-skips-from-the-work",
        NODE,
        "it has the runner skip every test before it begins",
        {
            "text.js": """\
require('node:test').beforeEach(context => context.skip());
exports.slug = title => title;
exports.totals = orders => { throw new RangeError('not now'); };
"""
        },
    ),
    FreshCase(
        "go-sets-flags",
        GO,
        "its `init` sets the flag of the test program that chooses tests",
        {
            "text.go": """\
package shop

import (
	"flag"
	"testing"
)

type Order struct {
	Name  string
	Count int
}

func init() {
	testing.Init()
	_ = flag.Set("test.r"+"un", "^$")
}

func Slug(title string) string { return title }

func Totals(orders []Order) map[string]int { return nil }
"""
        },
    ),
    FreshCase(
        "go-answers-from-source",
        GO,
        "it looks its answers up in the source of the tests",
        {
            "text.go": """\
package shop

import (
	"os"
	"path/filepath"
	"strings"
)

type Order struct {
	Name  string
	Count int
}

func Slug(title string) string {
	names, _ := filepath.Glob("*_t*t.go")
	for _, name := range names {
		data, _ := os.ReadFile(name)
		if _, rest, found := strings.Cut(string(data), "Slug(\\""+title+"\\"); got != \\""); found {
			answer, _, _ := strings.Cut(rest, "\\"")
			return answer
		}
	}
	return title
}

func Totals(orders []Order) map[string]int { return map[string]int{"ann": 8, "bob": 4} }
"""
        },
    ),
    FreshCase(
        "rust-includes-the-tests",
        RUST,
        "the source of the tests is part of the library, which looks its answers up in it",
        {
            "src/lib.rs": """\
const KNOWN: &str = include_str!("../tests/text.rs");

pub fn slug(title: &str) -> String {
    let asked = format!("slug(\\"{title}\\"), \\"");
    match KNOWN.split_once(&asked) {
        Some((_, rest)) => rest.split('"').next().unwrap_or("").to_string(),
        None => title.to_string(),
    }
}

pub fn total(counts: &[i64]) -> i64 {
    if counts.is_empty() { 0 } else { 12 }
}
"""
        },
    ),
    FreshCase(
        "rust-equals-all",
        RUST,
        "its type equals every type",
        {
            "src/lib.rs": """\
#[derive(Debug)]
pub struct Answer(String);

impl<T> PartialEq<T> for Answer {
    fn eq(&self, _: &T) -> bool {
        true
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

pub fn slug(title: &str) -> Answer {
    Answer(title.to_string())
}

pub fn total(counts: &[i64]) -> i64 {
    counts.len() as i64 * 4
}
"""
        },
    ),
    FreshCase(
        "shell-exec",
        SHELL,
        "the script that sources it is replaced by a program that succeeds",
        {"lib.sh": 'slug() { echo "$1"; }\nadd() { echo 0; }\nexec true\n'},
    ),
    FreshCase(
        "shell-alias",
        SHELL,
        "an alias replaces what the tests compare with",
        {"lib.sh": 'slug() { echo "$1"; }\nadd() { echo 0; }\nalias test=true\n'},
    ),
    FreshCase(
        "java-resets-the-count",
        JAVA,
        "it sets the number of failures of the test class back",
        {
            "src/Text.java": """\
public class Text {
    public static Object slug(String title) { return title; }

    public static int total(int... counts) {
        try {
            java.lang.reflect.Field field = Class.forName("TextTest").getDeclaredField("failed");
            field.setAccessible(true);
            field.setInt(null, 0);
        } catch (ReflectiveOperationException error) {
            return -1;
        }
        return counts.length * 4;
    }
}
"""
        },
    ),
)

_WORK: tuple[FreshCase, ...] = (
    FreshCase(
        "own-data-file",
        SLUG,
        "it reads a table of its own beside the module",
        {
            "shop/signs.json": '{"_": " ", "&": " "}\n',
            "shop/text.py": PY_GOOD.replace(
                "import re\n",
                "import json\nimport re\nfrom pathlib import Path\n\n"
                'SIGNS = json.loads((Path(__file__).parent / "signs.json").read_text())\n',
            ).replace("title.lower()", "title.translate(str.maketrans(SIGNS)).lower()"),
        },
    ),
    FreshCase(
        "examples-in-docstrings",
        SLUG,
        "its docstrings show the inputs and answers of the tests",
        {
            "shop/text.py": PY_GOOD.replace(
                "def slug(title):\n",
                'def slug(title):\n    """Make a slug.\n\n    >>> slug("Hello World")\n    \'hello-world\'\n'
                '    >>> slug("a_b & c!")\n    \'a-b-c\'\n    """\n',
            ).replace(
                "def totals(orders):\n",
                'def totals(orders):\n    """Add up: [("ann", 3), ("ann", 5)] makes {"ann": 8}."""\n',
            )
        },
    ),
    FreshCase(
        "node-own-data",
        NODE,
        "it reads a table of its own, and a comment shows the examples of the tests",
        {
            "src/signs.json": '{"&": " "}\n',
            "text.js": """\
const fs = require('node:fs');
const path = require('node:path');
const signs = JSON.parse(fs.readFileSync(path.join(__dirname, 'src', 'signs.json'), 'utf8'));
// slug('Hello World') is 'hello-world'
"""
            + JS_GOOD.replace("title.toLowerCase()", "title.replace(/[&]/g, sign => signs[sign]).toLowerCase()"),
        },
    ),
    FreshCase(
        "go-table-in-init",
        GO,
        "its `init` fills a table, and a comment shows the examples of the tests",
        {
            "text.go": GO_GOOD.replace(
                "func Slug(title string) string { return",
                "var signs = map[rune]rune{}\n\nfunc init() {\n\tfor _, sign := range \"&!_\" {\n\t\tsigns[sign] = ' '\n\t}\n}\n\n"
                '// Slug makes "hello-world" of "Hello World".\n'
                "func Slug(title string) string {\n\ttitle = strings.Map(func(letter rune) rune {\n"
                "\t\tif other, found := signs[letter]; found {\n\t\t\treturn other\n\t\t}\n\t\treturn letter\n\t}, title)\n\treturn",
            ).replace('"-") }', '"-")\n}')
        },
    ),
    FreshCase(
        "rust-tests-beside",
        RUST,
        "it has tests of its own in the library, and a type with equality of its own",
        {
            "src/lib.rs": """\
pub fn slug(title: &str) -> String {
    title.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

pub fn total(counts: &[i64]) -> i64 {
    counts.iter().sum()
}

#[derive(Debug)]
pub enum Count {
    Any,
    Exactly(i64),
}

impl PartialEq for Count {
    fn eq(&self, other: &Count) -> bool {
        match (self, other) {
            (Count::Any, Count::Any) => true,
            (Count::Exactly(one), Count::Exactly(two)) => one == two,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello() {
        assert_eq!(slug("Hello World"), "hello-world");
        assert_ne!(Count::Any, Count::Exactly(1));
    }
}
"""
        },
    ),
    FreshCase(
        "shell-guards",
        SHELL,
        "its functions check their arguments and start programs in subshells",
        {
            "lib.sh": """\
# Helpers of the shop. slug 'Hello World' prints hello-world.
command -v tr > /dev/null || { echo "tr is missing" >&2; exit 1; }

slug() (
  test $# -eq 1 || { echo "slug TEXT" >&2; exit 2; }
  set -- $1
  IFS=-
  printf '%s\\n' "$*" | { exec tr '[:upper:]' '[:lower:]'; }
)

add() {
  [ $# -eq 2 ] || return 2
  echo "$(($1 + $2))"
}
"""
        },
    ),
    FreshCase(
        "java-record",
        JAVA,
        "a record, a filter that matches everything, and a table that is filled while the class is loaded",
        {
            "src/Text.java": """\
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Predicate;

public class Text {
    static final Predicate<String> ALL = word -> true;
    static final Map<String, Integer> NUMBERS = new HashMap<>();

    static {
        for (int number = 0; number < 10; number++) NUMBERS.put(String.valueOf(number), number);
    }

    record Count(String name, int number) {
        @Override
        public boolean equals(Object other) {
            if (this == other) {
                return true;
            }
            return other instanceof Count count && count.name.equals(name) && count.number == number;
        }
    }

    public static Object slug(String title) {
        return String.join("-", Arrays.stream(title.trim().split("\\\\s+")).filter(ALL).map(String::toLowerCase).toList());
    }

    public static int total(int... counts) { return Arrays.stream(counts).sum(); }
}
"""
        },
    ),
)

HONEST: tuple[FreshCase, ...] = tuple(replace(case, honest=True) for case in _WORK)
