//! Owns the forms of tool outputs: what a log, a listing, a table, a test run, a diff is made of.

/// What an output is made of: its first block, the blocks in between in any order and number, its last block.
pub(super) struct Form {
    pub(super) head: &'static str,
    pub(super) blocks: &'static [&'static str],
    pub(super) foot: &'static str,
    /// What matters stands near the end.
    pub(super) late: bool,
}

pub(super) const fn form(head: &'static str, blocks: &'static [&'static str], foot: &'static str) -> Form {
    Form { head, blocks, foot, late: false }
}

const fn late(head: &'static str, blocks: &'static [&'static str], foot: &'static str) -> Form {
    Form { head, blocks, foot, late: true }
}

/// Comments for source files.
pub(super) fn comments(ja: bool) -> &'static [&'static str] {
    if ja {
        &[
            "$lの一覧を受け取り、$lごとにまとめる。",
            "TODO: $lの件数が多い場合の扱いを見直す",
            "呼び出し側で$lが空でないことを確認済み",
            "既定値は$3。$lから読み込む",
            "古い$lとの互換のために残している",
            "ここでは$lを変更しない",
            "$lの並び順は保証しない",
            "エラー時は$lをそのまま返す",
            "FIXME: $lの検証が足りない",
            "キャッシュは$1分で無効になる",
        ]
    } else {
        &[
            "Takes the list of $o and groups it by $o.",
            "TODO: think about $o when there are more than $4",
            "The caller has already checked that $o is not empty.",
            "Defaults to $3, see $o.",
            "Kept for old versions of $o.",
            "Must not change $o here.",
            "The order of $o is not guaranteed.",
            "Returns $o untouched when it fails.",
            "FIXME: $o is not validated",
            "Cached for $1 minutes.",
        ]
    }
}

pub(super) fn log(ja: bool) -> Form {
    const EN: &[&str] = &[
        "2024-11-0$1 $t INFO  [$s] $n request finished status=200 took=$3ms id=$h",
        "2024-11-0$1 $t INFO  [$s] $v $n: $2 items in $2 batches",
        "2024-11-0$1 $t DEBUG [$s] cache hit for $n:$5 ttl=$3",
        "2024-11-0$1 $t DEBUG [$s] $n queue depth $2, $1 workers idle",
        "2024-11-0$1 $t WARN  [$s] slow $v of $n: $4ms (threshold 1000ms)",
        "2024-11-0$1 $t INFO  [$s] health check ok",
        "2024-11-0$1 $t WARN  [$s] retrying $n after timeout, attempt $1 of 9",
        "2024-11-0$1 $t INFO  [$s] GET /$n/$5 200 $3ms \"Mozilla/5.0\" 10.$1.$2.$2",
        "2024-11-0$1 $t INFO  [$s] POST /$n 201 $2ms trace=$h$h",
        "2024-11-0$1 $t ERROR [$s] client closed connection while sending $n (ignored)",
        "2024-11-0$1 $t DEBUG [$s] gc pause $1.$2ms heap=$3MB",
        "2024-11-0$1 $t INFO  [$s] reloaded $m from $d, $3 entries",
    ];
    const JA: &[&str] = &[
        "2024-11-0$1 $t INFO  [$s] $j の処理が完了しました 件数=$3 時間=$3ms",
        "2024-11-0$1 $t INFO  [$s] $v $j: $2件を$1回に分けて処理",
        "2024-11-0$1 $t DEBUG [$s] キャッシュから$jを取得 key=$h",
        "2024-11-0$1 $t WARN  [$s] $j の応答が遅延しています ($4ms)",
        "2024-11-0$1 $t INFO  [$s] GET /$n/$5 200 $3ms 10.$1.$2.$2",
        "2024-11-0$1 $t WARN  [$s] $j を再試行します ($1回目)",
        "2024-11-0$1 $t INFO  [$s] ヘルスチェック正常",
        "2024-11-0$1 $t DEBUG [$s] 待ち行列 $2件、空きワーカー $1",
        "2024-11-0$1 $t ERROR [$s] クライアントが接続を切断しました(無視します) id=$h",
        "2024-11-0$1 $t INFO  [$s] $d から $k を再読込 $3件",
    ];
    form("", if ja { JA } else { EN }, "")
}

pub(super) fn test_command(lang: &str) -> &'static str {
    match lang {
        "py" => "pytest -q",
        "rs" => "cargo test",
        "ts" => "npx vitest run",
        "go" => "go test ./...",
        "cpp" => "ctest --output-on-failure",
        _ => "./gradlew test",
    }
}

pub(super) fn test(lang: &str) -> Form {
    match lang {
        "py" => late(
            "============ test session starts ============\nplatform linux -- Python 3.11.$1\ncollected $3 items",
            &[
                "tests/test_$n_$m.py::test_$v_$n PASSED",
                "tests/test_$n.py::test_$u_$o_$o PASSED",
                "tests/test_$m.py::test_$v_empty_$m SKIPPED (needs network)",
                "tests/test_$n.py::test_$u_$o[$2-$o] PASSED",
                "tests/test_$o.py::test_$v_raises PASSED",
            ],
            "======= $3 passed, $1 skipped, $1 warnings in $2.$2s =======",
        ),
        "rs" => late(
            "    Finished `test` profile [unoptimized + debuginfo] target(s) in $2.$2s\n     Running unittests src/lib.rs",
            &[
                "test $n::tests::$v_$m ... ok",
                "test $n::$m::tests::$u_$o_twice ... ok",
                "test $o::tests::$u_empty_$o ... ok",
                "test $n::tests::$v_$n_keeps_$m ... ignored",
            ],
            "test result: ok. $3 passed; 0 failed; $1 ignored; finished in $1.$2s",
        ),
        "ts" => late(
            " RUN  v1.$1.$1 /app",
            &[
                " ✓ src/$n/$m.test.ts ($1 tests) $3ms",
                " ✓ src/$o/$u$M.test.tsx ($2 tests) $3ms",
                " ↓ src/$n/legacy.test.ts (skipped)",
                "   stdout | $n > $v > shows $m when there is no $o",
            ],
            " Test Files  $2 passed\n      Tests  $3 passed\n   Duration  $2.$2s",
        ),
        _ => late(
            "running suite $n",
            &[
                "ok      $d/$n  0.$3s",
                "=== RUN   Test$N$M\n--- PASS: Test$N$M (0.$2s)",
                "?       $d/$o   [no test files]",
                "=== RUN   Test$M_$v_$n\n--- PASS: Test$M_$v_$n (0.0$1s)",
            ],
            "$3 tests completed, $1 skipped",
        ),
    }
}

pub(super) fn build() -> Form {
    late(
        "[+] Building with $d",
        &[
            "#$2 [$n $1/9] COPY $d ./$n",
            "#$2 CACHED",
            "#$2 $1.$3 Get:$2 http://deb.debian.org/debian $n amd64 [$3 kB]",
            "warning: unused import: `$n::$m` in $d/$o.$e:$3",
            "npm WARN deprecated $n-$m@$1.$1.$1: use $o instead",
            "   Compiling $n-$m v0.$1.$2",
            "note: $v_$n is deprecated, $2 occurrences",
            "#$2 DONE $1.$1s",
            "Downloading $n-$m-$1.$1.$1.tar.gz ($3 kB)",
        ],
        "Build finished in $3s, image $s:$h",
    )
}

pub(super) fn listing() -> Form {
    form(
        "total $4",
        &[
            "-rw-r--r-- 1 $p dev  $5 Nov $1 $t $n_$m.$e",
            "drwxr-xr-x 2 $p dev   4096 Oct $2 $t $n",
            "-rw-r--r-- 1 $p dev   $4 Nov $1 $t $v_$n.$e",
            "-rwxr-xr-x 1 root root  $4 Sep $1 $t $n.sh",
            "-rw-r--r-- 1 $p dev $6 Nov $1 $t $m.$n.json",
            "-rw-r--r-- 1 $p dev   $3 Aug $1 $t README.$n.md",
        ],
        "",
    )
}

pub(super) fn records(ja: bool) -> Form {
    const EN: &[&str] = &[
        "  {\"id\": $5, \"$n\": \"$h\", \"state\": \"active\", \"$m_count\": $2, \"updated_by\": \"$p\"},",
        "  {\"id\": $5, \"$n\": null, \"state\": \"archived\", \"$m_count\": 0, \"updated_by\": \"$p\", \"tags\": [\"$o\", \"$o\"]},",
        "  {\"id\": $5, \"$n\": \"$h\", \"state\": \"pending\", \"note\": \"waiting for $o, $u later\", \"score\": 0.$3},",
        "  {\"id\": $5, \"$n\": \"$h\", \"state\": \"active\", \"links\": {\"self\": \"/api/v2/$n/$5\", \"$m\": \"/api/v2/$m/$4\"}},",
    ];
    const JA: &[&str] = &[
        "  {\"id\": $5, \"$n\": \"$h\", \"状態\": \"有効\", \"件数\": $2, \"更新者\": \"$p\"},",
        "  {\"id\": $5, \"$n\": null, \"状態\": \"保管済み\", \"備考\": \"$lの確認待ち\", \"更新者\": \"$p\"},",
        "  {\"id\": $5, \"$n\": \"$h\", \"state\": \"pending\", \"memo\": \"$lを$u予定、担当は$p\", \"score\": 0.$3},",
        "  {\"id\": $5, \"$n\": \"$h\", \"state\": \"active\", \"links\": {\"self\": \"/api/v2/$n/$5\"}, \"表示名\": \"$k($2番)\"},",
    ];
    form("{\"items\": [", if ja { JA } else { EN }, "], \"total\": $4, \"next\": \"/api/v2/$n?cursor=$h\"}")
}

pub(super) fn rows() -> Form {
    form(
        "  id   | $n         | status   | amount   | updated_at\n-------+------------+----------+----------+--------------------",
        &[
            " $5 | $h   | open     | $4.$2  | 2024-10-2$1 $t",
            " $5 | $h   | closed   | $3.$2   | 2024-09-1$1 $t",
            " $5 | $h   | waiting  | $5.$2 | 2024-11-0$1 $t",
            " $5 | NULL       | closed   | 0.00     | 2024-08-1$1 $t",
        ],
        "($2 rows)",
    )
}

pub(super) fn trace(lang: &str) -> Form {
    match lang {
        "py" => late(
            "Running $n ...\nTraceback (most recent call last):",
            &[
                "  File \"/app/$d/$n.py\", line $3, in $v_$m\n    return self.$u_$o($m, limit=$2)",
                "  File \"/usr/lib/python3.11/site-packages/$o/core.py\", line $4, in $u\n    raise_for_$o(resp)",
            ],
            "(process ended)",
        ),
        "rs" | "cpp" => late(
            "starting $n with $1 workers",
            &[
                "  $2: $n::$m::$v_$n\n             at ./$d/$n.$e:$3:$2",
                "  $2: core::ops::function::FnOnce::call_once",
                "  $2: $o::runtime::$u\n             at /root/.cargo/registry/src/$o-0.$1.$1/src/$u.rs:$3",
            ],
            "note: some details are omitted",
        ),
        _ => late(
            "Starting $n $h",
            &[
                "    at com.example.$n.$M.$v$N($M.java:$3)",
                "    at com.example.$o.$u.Handler.invoke(Handler.java:$3)",
                "    at java.base/java.util.concurrent.ThreadPoolExecutor.runWorker(ThreadPoolExecutor.java:$4)",
                "    ... $2 more",
            ],
            "exit after $2.$1s",
        ),
    }
}

pub(super) fn diff(lang: &str) -> Form {
    let blocks: &[&str] = match lang {
        "py" => &[
            "@@ -$3,7 +$3,8 @@ def $v_$n($m):\n     $m = $u_$o($m)\n-    return $m[:$2]\n+    if not $m:\n+        return []\n+    return $m[:$3]",
            "@@ -$2,4 +$2,4 @@\n-from $n.$m import $v_$o\n+from $n.$o import $v_$m\n import logging",
            "@@ -$3,5 +$3,5 @@ class $N:\n-    $m_limit = $2\n+    $m_limit = $3\n     $o = None",
        ],
        _ => &[
            "@@ -$3,6 +$3,7 @@ $v_$n\n     let $m = $u_$o($n);\n-    $m.$v($2);\n+    $m.$v($3);\n+    $m.flush();\n }",
            "diff --git a/$d/$n.$e b/$d/$n.$e\nindex $h..$h 100644\n--- a/$d/$n.$e\n+++ b/$d/$n.$e",
            "@@ -$2,5 +$2,4 @@\n-// $c\n-const $n_limit = $3;\n+const $n_limit = $4;\n",
        ],
    };
    form("diff --git a/$d/$n_$m.$e b/$d/$n_$m.$e\nindex $h..$h 100644", blocks, "")
}

pub(super) fn history(ja: bool) -> Form {
    const EN: &[&str] = &[
        "$h $v $n before $m",
        "$h fix typo in $n",
        "$h Merge pull request #$4 from $p/$n-$m",
        "$h tests for $v $o",
        "$h bump $o from $1.$1.$1 to $1.$2.0",
        "$h revert \"$v $m\"",
        "$h wip $n",
        "$h refactor: split $n and $m",
    ];
    const JA: &[&str] = &[
        "$h $jの$v処理を整理",
        "$h 誤字修正 ($j)",
        "$h Merge pull request #$4 from $p/$n-$k",
        "$h $lのテストを追加",
        "$h $lを $1.$1.$1 から $1.$2.0 に更新",
        "$h 「$kの変更」を取り消し",
        "$h 作業途中 $j",
        "$h $jと$kを分割",
    ];
    form("", if ja { JA } else { EN }, "")
}

pub(super) fn hits() -> Form {
    form(
        "",
        &[
            "$d/$n.$e:$3:    $v_$n($m, $2)",
            "$d/$m_$n.$e:$2:use $o::$v_$n;",
            "tests/$n_$m.$e:$3:    assert $v_$n($o) == $2",
            "$d/$o.$e:$4:  // $c",
            "docs/$n.md:$2:`$v_$n` is called once per $m.",
        ],
        "",
    )
}

pub(super) fn table() -> Form {
    form(
        "NAMESPACE   NAME                          READY  STATUS     RESTARTS  AGE",
        &[
            "default     $s-$h          1/1    Running    $1         $2d",
            "batch       $s-$n-$h       0/1    Completed  0         $1h",
            "$n        $s-$h          2/2    Running    $2        $2d",
            "monitoring  node-exporter-$h        1/1    Running    0         $3d",
            "root     $5  $1.$1  0.$1 $6 $5 ?  Ssl  Oct0$1  $2:$2 /usr/bin/$n --$m=$4",
            "/dev/nvme$1n1p1   $3G  $2G  $2G  $2% /mnt/$n",
        ],
        "",
    )
}

pub(super) fn csv() -> Form {
    form(
        "id,$n,$m,value,ratio,created",
        &["$5,$h,$o,$3.$2,0.$3,2024-10-1$1", "$5,$h,$o,$2.$2,0.$2,2024-09-2$1", "$5,,$o,$4.$1,,2024-08-1$1"],
        "",
    )
}

pub(super) fn yaml() -> Form {
    form(
        "# $c\nversion: $1",
        &[
            "$n:\n  $m_limit: $3\n  timeout_seconds: $2\n  enabled: true",
            "  - name: $s\n    image: registry.internal/$s:$h\n    replicas: $1",
            "# $c\n$m:\n  path: $d/$n\n  retries: $1",
            "    env:\n      - name: $n_$m\n        value: \"$4\"",
            "  resources:\n    requests: {cpu: $3m, memory: $3Mi}\n    limits: {cpu: $4m, memory: $4Mi}",
        ],
        "",
    )
}
