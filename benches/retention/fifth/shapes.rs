//! Owns what tool outputs look like: source files, logs, test runs, builds, listings, tables, diffs, pages.

use super::words::Lang;

/// Templates of one kind of output.
pub(super) struct Shape {
    pub(super) head: &'static [&'static str],
    pub(super) blocks: &'static [&'static str],
    pub(super) foot: &'static [&'static str],
    /// What stands before a planted line.
    pub(super) before: &'static str,
}

const fn plain(
    head: &'static [&'static str],
    blocks: &'static [&'static str],
    foot: &'static [&'static str],
) -> Shape {
    Shape { head, blocks, foot, before: "" }
}

/// The shape of a kind of output; a log if there is no such kind.
pub(super) fn shape(kind: &str, lang: Lang) -> Shape {
    match kind {
        "rust" => plain(RUST_HEAD, RUST, &[]),
        "py" => plain(PY_HEAD, PY, &[]),
        "ts" => plain(TS_HEAD, TS, &[]),
        "go" => plain(GO_HEAD, GO, &[]),
        "java" => plain(&["package jp.example.$n;", "", "import java.util.*;", ""], JAVA, &["}"]),
        "yaml" => plain(&["# $c"], YAML, &[]),
        "ddl" => plain(&["-- $c"], DDL, &[]),
        "cargo" => plain(&["   Compiling $n-core v0.$a.$a (/build/$n)"], CARGO, &["    Finished in $b.$bs"]),
        "pytest" => {
            plain(&["===== test session starts =====", "collected $d items", ""], PYTEST, PYTEST_FOOT)
        }
        "jest" => plain(&["> vitest run", ""], JEST, &["", "Duration  $b.$bs"]),
        "npm" => plain(&["npm notice"], NPM, &["found $a vulnerabilities, $b packages looking for funding"]),
        "gradle" => plain(&["Starting a Gradle Daemon"], GRADLE, &["", "BUILD finished in $am $bs"]),
        "ls" => plain(&["total $d"], LS, &[]),
        "tree" => plain(&["."], TREE, &["", "$b directories, $b files"]),
        "json" => plain(&["{\"items\": ["], json_blocks(lang), &["  {\"end\": true}", "]}"]),
        "csv" => plain(&["id,date,$n,$n,$n,note"], csv_blocks(lang), &[]),
        "table" => {
            plain(&[" id | name | $n | $n | note", "----+------+----+----+------"], table_blocks(lang), &[])
        }
        "trace" => plain(&["$t ERROR unhandled exception in $n-$a"], TRACE, &[]),
        "diff" => plain(&["diff --git a/src/$n.rs b/src/$n.rs", "index $h..$h 100644"], DIFF, &[]),
        "gitlog" => plain(&[], git_blocks(lang), &[]),
        "grep" => plain(&[], GREP, &[]),
        "pods" => plain(&["NAME   READY   STATUS   RESTARTS   AGE"], PODS, &[]),
        "plan" => plain(&["Refreshing state..."], PLAN, &[]),
        "metrics" => plain(&["# scrape of $D $t"], METRICS, &[]),
        "page" => plain(&["<article>"], page_blocks(lang), &["</article>"]),
        "doc" => plain(&["# $j $j", ""], doc_blocks(lang), &[]),
        _ => Shape { head: &[], blocks: LOG, foot: &[], before: "$t $l  [$n-$a] " },
    }
}

const fn json_blocks(lang: Lang) -> &'static [&'static str] {
    match lang {
        Lang::En => &[
            "  {\"id\": $d, \"$n\": \"$h\", \"state\": \"open\", \"owner\": \"$w\", \"$n\": $d},",
            "  {\"id\": $d, \"$n\": null, \"state\": \"done\", \"tags\": [\"$n\", \"$n\"], \"ms\": $b},",
            "  {\"id\": $d, \"state\": \"failed\", \"error\": \"$m\", \"retries\": $a},",
        ],
        Lang::Ja => &[
            "  {\"id\": $d, \"名称\": \"$j$j\", \"状態\": \"受付中\", \"担当\": \"$w\", \"$n\": $d},",
            "  {\"id\": $d, \"名称\": \"$j$j\", \"状態\": \"完了\", \"分類\": [\"$j\", \"$j\"]},",
            "  {\"id\": $d, \"状態\": \"失敗\", \"理由\": \"$m\", \"再試行\": $a},",
        ],
    }
}

const fn csv_blocks(lang: Lang) -> &'static [&'static str] {
    match lang {
        Lang::En => &["$d,$D,$b.$b,$d,$n,$w", "$d,$D,$b.$b,$d,$n,", "$d,$D,,$d,$n,\"$m\""],
        Lang::Ja => &["$d,$D,$j,$j$j,$d,$w", "$d,$D,$j,$j,$b,", "$d,$D,$j$j,,$d,「$m」"],
    }
}

const fn table_blocks(lang: Lang) -> &'static [&'static str] {
    match lang {
        Lang::En => {
            &[" $d | $n-$n | $d | $b.$a | $w", " $d | $n | $d | NULL |", " $d | $n-$h | $a | $b.$b | $m"]
        }
        Lang::Ja => &[" $d | $j$j | $d | $j | $w", " $d | $j | $d | NULL |", " $d | $j$j$j | $a | $j | $m"],
    }
}

const fn git_blocks(lang: Lang) -> &'static [&'static str] {
    match lang {
        Lang::En => &[
            "$h $D $w  $v the $n before the $n",
            "$h $D $w  fix: $n is off by one in $v_$n",
            "$h $D $w  chore: bump $n to 0.$b.$a",
            "$h $D $w  Merge branch '$n/$v-$n'",
        ],
        Lang::Ja => &[
            "$h $D $w  $jの表示を修正",
            "$h $D $w  $jと$jの計算を分離",
            "$h $D $w  $n を 0.$b.$a に更新",
            "$h $D $w  $j一覧に$jを追加",
        ],
    }
}

const fn page_blocks(lang: Lang) -> &'static [&'static str] {
    match lang {
        Lang::En => &[
            "<p>$s $s $s</p>",
            "<h3 id=\"$1\">The $1 and its $2</h3>\n<p>$s $s</p>",
            "<ul>\n  <li>$s</li>\n  <li><a href=\"/docs/$n/$n.html\">$n $n</a></li>\n  <li>$s</li>\n</ul>",
            "<tr><td>$n</td><td>$d</td><td>$b %</td><td>$w</td></tr>",
        ],
        Lang::Ja => &[
            "<p>$s$s$s</p>",
            "<h3 id=\"$1\">$jと$j</h3>\n<p>$s$s</p>",
            "<ul>\n  <li>$s</li>\n  <li><a href=\"/$n/$n.html\">$j$jについて</a></li>\n  <li>$s</li>\n</ul>",
            "<tr><td>$j</td><td>$d</td><td>$b%</td><td>$w</td></tr>",
        ],
    }
}

const fn doc_blocks(lang: Lang) -> &'static [&'static str] {
    match lang {
        Lang::En => &["$s $s $s\n", "## The $n\n\n$s $s\n", "- $s\n- $s", "| $n | $d | $b |", "> $s $s"],
        Lang::Ja => &["$s$s$s\n", "## $jの$j\n\n$s$s\n", "- $s\n- $s", "| $j | $d | $j |", "> $s$s"],
    }
}

const LOG: &[&str] = &[
    "$t $l  [$n-$a] $m",
    "$t $l  [$n-$a] $m",
    "$t INFO  [$n] $m trace=$h",
    "$t DEBUG [$n-$b] $m",
    "$t WARN  [$n-$a] $m ($n=$d)",
];

const RUST_HEAD: &[&str] = &["//! $c", "", "use std::collections::BTreeMap;", "use crate::$n::$N;", ""];
const RUST: &[&str] = &[
    "/// $c\npub fn $v_$1(&mut self, $2: &$N) -> Result<usize, $NError> {\n    let mut $1 = self.$1.lock();\n    if $1.is_empty() {\n        return Err($NError::Missing($2.id));\n    }\n    // $c\n    $1.retain(|item| item.$2 != $d);\n    Ok($1.len())\n}\n",
    "/// $c\n#[derive(Debug, Clone, Default)]\npub struct $I$N {\n    $1: BTreeMap<u64, $N>,\n    $2: Option<String>,\n    limit: usize, // $d\n}\n",
    "impl $I {\n    /// $c\n    pub const MAX_$a: u32 = $d;\n\n    pub fn $v(&self) -> impl Iterator<Item = &$N> {\n        self.$2.values().filter(|$2| $2.active)\n    }\n}\n",
    "#[test]\nfn $v_$1_keeps_$2() {\n    let $1 = $I::with_limit($d);\n    assert_eq!($1.$v().count(), $a);\n}\n",
];
const PY_HEAD: &[&str] = &["\"\"\"$c\"\"\"", "from __future__ import annotations", "import logging", ""];
const PY: &[&str] = &[
    "def $v_$1($2: dict, limit: int = $d) -> list[str]:\n    \"\"\"$c\"\"\"\n    rows = []\n    for key, value in sorted($2.items()):\n        if value.get(\"$1\") is None:\n            logger.warning(\"no $1 for %s\", key)\n            continue\n        rows.append(f\"{key}:{value['$1']}\")\n    return rows[:limit]\n",
    "class $I$N:\n    # $c\n    def __init__(self, $1, $2=None):\n        self.$1 = $1\n        self.$2 = $2 or {}\n\n    def $v(self):\n        return {k: v for k, v in self.$2.items() if v > $b}\n",
    "# $c\n$1_$2 = ($d, $d, \"$h\")\n",
];
const TS_HEAD: &[&str] = &["// $c", "import { $N } from '../$n/$n';", ""];
const TS: &[&str] = &[
    "/** $c */\nexport function $v$I($2: $N[], limit = $d): $N[] {\n  const seen = new Set<string>();\n  return $2.filter((item) => {\n    if (seen.has(item.$1)) return false;\n    seen.add(item.$1);\n    return true;\n  }).slice(0, limit);\n}\n",
    "export interface $I$N {\n  readonly $1: string;\n  $2?: number; // $c\n  $n: Record<string, $N>;\n}\n",
    "export const use$I = () => {\n  const [$2, set$N] = useState<$N | null>(null);\n  useEffect(() => {\n    // $c\n    $v($2?.id ?? $d);\n  }, [$2]);\n  return $2;\n};\n",
];
const GO_HEAD: &[&str] =
    &["// Package $n: $c", "package $n", "", "import (", "\t\"context\"", "\t\"fmt\"", ")", ""];
const GO: &[&str] = &[
    "// $c\nfunc (s *$I) $v$N(ctx context.Context, $2 string) (int, error) {\n\trows, err := s.$1.Query(ctx, $2, $d)\n\tif err != nil {\n\t\treturn 0, fmt.Errorf(\"$v $1: %w\", err)\n\t}\n\treturn len(rows), nil\n}\n",
    "type $I$N struct {\n\t$N string `json:\"$1\"`\n\t$N int64  `json:\"$2\"` // $c\n}\n",
    "const $1$N = $d // $c\n",
];
const JAVA: &[&str] = &[
    "    /** $c */\n    public List<$N> $v$I(String $2, int limit) {\n        List<$N> rows = repository.findBy$I($2);\n        if (rows.size() > $d) {\n            log.warn(\"$1 over limit: {}\", rows.size());\n        }\n        return rows.stream().limit(limit).toList();\n    }\n",
    "    // $c\n    private static final int $N_$b = $d;\n",
    "    @Test\n    void $v_$1_$2() {\n        assertThat(service.$v(\"$h\")).hasSize($a); // $c\n    }\n",
];
const YAML: &[&str] = &[
    "$1:\n  $2: $d\n  enabled: true\n  # $c",
    "- name: $1-$2\n  image: registry.local/$1:$a.$b.$a\n  resources:\n    limits: {cpu: $b0m, memory: $bMi}",
    "  $n_$n: \"$h\"",
];
const DDL: &[&str] = &[
    "CREATE TABLE $1_$2 (\n  id BIGINT PRIMARY KEY,\n  $n_id BIGINT NOT NULL,\n  $n TEXT, -- $c\n  created_at TIMESTAMPTZ DEFAULT now()\n);",
    "CREATE INDEX idx_$1_$2_$a ON $1 ($2, $n);",
    "SELECT $1.id, count(*) FROM $1 JOIN $2 USING (id) WHERE $1.$n > $d GROUP BY 1;",
];
const CARGO: &[&str] = &[
    "test $n::tests::$v_$n_$n ... ok",
    "test $n::tests::$v_$n ... ok",
    "warning: unused variable: `$1`\n  --> src/$2/$n.rs:$d:$b\n   |\n   = note: `#[warn(unused_variables)]` on by default",
    "test $n::$v_$n_roundtrip ... ignored",
    "   Compiling $n v$a.$b.$a",
];
const PYTEST: &[&str] = &[
    "tests/test_$n.py::test_$v_$n PASSED  [ $b%]",
    "tests/$n/test_$n.py::test_$v_$n[$n-$d] PASSED  [ $b%]",
    "tests/test_$n.py::test_$v_$n_$n SKIPPED ($n not installed)",
    "  tests/test_$n.py:$d: DeprecationWarning: $n.$v() is deprecated",
];
const PYTEST_FOOT: &[&str] = &["===== $d passed, $a skipped, $b warnings in $b.$bs ====="];
const JEST: &[&str] = &[
    " ✓ src/$n/$n.test.ts ($b tests) $dms",
    "   ✓ $v $n with $n",
    "stderr | src/$n/$n.test.ts\nWarning: An update to $N inside a test was not wrapped in act(...)",
];
const NPM: &[&str] = &[
    "npm warn deprecated $n-$n@$a.$a.$a: $c",
    "dist/assets/$n-$h.js   $d.$b kB │ gzip: $b.$b kB",
    "transforming ($d) src/$n/$n.tsx",
    "added $b packages from $n-$n@$a.$b.$a",
];
const GRADLE: &[&str] = &[
    "> Task :$n:compile$NJava",
    "> Task :$n:process$NResources UP-TO-DATE",
    "warning: [deprecation] $v(String) in $N has been deprecated\n    $1.$v(\"$2\");\n      ^",
    "> Task :$n:test FROM-CACHE",
];
const LS: &[&str] = &[
    "-rw-r--r-- 1 app app $d $D $n_$n.dat",
    "drwxr-xr-x $a app app 4096 $D $n",
    "-rwxr-xr-x 1 root root $d $D $v-$n.sh",
];
const TREE: &[&str] = &["├── $n\n│   ├── $n_$n.txt\n│   └── $v_$n.sh", "├── $n-$n.md", "│   ├── $n.json"];
const TRACE: &[&str] = &[
    "    at $n.$N.$v($N.java:$d)",
    "  File \"/srv/$n/$n.py\", line $d, in $v_$n",
    "    at async $v$N (/app/dist/$n/$n.js:$d:$b)",
    "Caused by: $m",
    "    ... $b common frames omitted",
];
const DIFF: &[&str] = &[
    "@@ -$d,$a +$d,$a @@ fn $v_$n\n     let $1 = $2.$v();\n-    $1.$v($d);\n+    $1.$v($d)?;\n     // $c",
    "+    // $c\n+    let $1 = $N::new($b);",
    "-use crate::$n::$N;\n+use crate::$n::{$N, $N};",
    " fn $v_$1($2: &str) -> bool {\n-    $2.len() > $d\n+    $2.chars().count() > $d\n }",
];
const GREP: &[&str] = &[
    "src/$n/$n.rs:$d:    let $n = $v_$n(&$n);",
    "lib/$n/$n.py:$d:# $c",
    "web/$n/$n.ts:$d:  return $v($n, $d);",
    "conf/$n.toml:$b:$n_$n = $d",
];
const PODS: &[&str] = &[
    "$n-$n-$h   1/1   Running   $a   $bd",
    "$n-$h   2/2   Running   0   $bh",
    "$n-$v-$h   0/1   Completed   0   $bd",
    "Warning  Unhealthy  $bm  kubelet  Readiness probe failed: HTTP probe of $n-$h: status 503",
    "Normal   Pulled     $bm  kubelet  image registry.local/$n:$a.$b already present",
];
const PLAN: &[&str] = &[
    "module.$n.$n_$n.this[$a]: Refreshing state... [id=$n-$h]",
    "  ~ resource \"$1_$2\" \"$n\" {\n      ~ $n = $d -> $d\n        id = \"$n-$h\"\n        # ($b unchanged attributes hidden)\n    }",
    "Note: Objects have changed outside of this configuration ($n.$n)",
];
const METRICS: &[&str] = &[
    "$n_$v_seconds_bucket{$n=\"$n\",le=\"0.$b\"} $d",
    "$n_$n_total{instance=\"10.$b.$a.$b:9100\"} $d",
    "# HELP $n_$n $c",
];
