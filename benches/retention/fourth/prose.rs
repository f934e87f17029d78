//! Owns web pages and documents: prose about the subject of the work, read on the way and of no use.

use super::forms::{Form, form};

/// The form of a page.
pub(super) fn page(ja: bool) -> Form {
    if ja {
        form("# $jと$kについて\n", JA, "\n最終更新: 2023-0$1-1$1 / この記事は役に立ちましたか?")
    } else {
        form("# Working with $n and $m\n", EN, "\nLast edited 2023-0$1-1$1. Was this page helpful?")
    }
}

const EN: &[&str] = &[
    "## $N and $M\n\nA $n is made of one or more $m. When you $v a $n the server takes the newest $m and hands it to every listener in turn. Most installations never need to change this.",
    "By default up to $3 $n are held in memory. You can raise the number, but each costs around $2 kB, and a larger $m makes restarts slower.",
    "> **Note:** do not call `$v_$n` from inside a $m handler, it may deadlock. Use `$u_$n` instead.",
    "The following table lists the limits of the free plan: $2 $n per hour, $3 $m per day, $1 parallel calls.",
    "### Troubleshooting\n\nIf you see `$N not ready`, wait for a minute and try again. If it goes on, look at the $m log and open a ticket.",
    "- `--$n-limit` (default $3): how many $n are taken at once\n- `--$m`: turns $m on\n- `--no-$o`: turns $o off",
    "In version $1.$1 the option `$n_$m` was renamed. The old name is still accepted and logs a warning.",
    "We measured this with $4 $n on a machine with $1 cores: the median was $2 ms, the 99th percentile $3 ms. Your results will differ.",
    "Many teams ask whether $n should come before $m. There is no single answer; it depends on how often $o changes, and on who reads it.",
    "```\n$v $n --$m $3 --out ./$o\n```",
    "You must have the `$n.admin` role to change a $m. Ask the owner of the workspace if you do not have it.",
    "Related: [$n in depth](/$n/depth), [$m by example](/$m/example), [migrating from $o $1](/migrate/$o).",
    "Comments ($2)\n\n$p: worked for me on 22.04, thanks\n$p: still fails with $n $1.$1, see #$4\n$p: same here, we gave up and went back to $o",
    "Accept cookies? We use them to remember your settings, to count visits, and to show offers by partners.",
];

const JA: &[&str] = &[
    "## $j と $k の関係\n\n$j は一つ以上の $k から成ります。$j を $v すると、サーバーは最新の $k を取り出し、順に配布します。通常はこの設定を変更する必要はありません。",
    "初期状態では最大$3件の $j をメモリに保持します。上限は変更できますが、1件あたりおよそ$2KBを消費し、再起動に時間がかかるようになります。",
    "> **注意:** $k のハンドラーの中から `$v_$n` を呼び出さないでください。待ち状態のまま停止することがあります。",
    "無料プランの制限は次のとおりです。$j は1時間に$2件、$k は1日に$3件、同時接続は$1本までとなります。",
    "### うまく動かないとき\n\n「$jの準備ができていません」と表示された場合は、1分ほど待ってから再度お試しください。解消しない場合は $k のログを確認します。",
    "- `--$n-limit` (既定値 $3): 一度に処理する $j の数\n- `--$m`: $k を有効にする\n- `--no-$o`: $l を無効にする",
    "バージョン $1.$1 で `$n_$m` の名前が変わりました。以前の名前も受け付けますが、警告が出力されます。",
    "$4件の $j を使って計測したところ、中央値は$2ミリ秒、99パーセンタイルは$3ミリ秒でした。環境によって結果は異なります。",
    "$j と $k のどちらを先に処理すべきかという質問をよくいただきますが、$l の更新頻度によって変わるため、一概には言えません。",
    "```\n$v $n --$m $3 --out ./$o\n```",
    "$k を変更するには `$n.admin` の権限が必要です。お持ちでない場合は管理者にお問い合わせください。",
    "関連記事: [$jの詳しい解説](/$n/depth)、[$kの実例](/$m/example)、[$l $1からの移行](/migrate/$l)",
    "コメント($2件)\n\n$p: 手元の環境では動きました。ありがとうございます\n$p: $j $1.$1 だとまだ駄目ですね\n$p: 同じ現象です。結局 $l に戻しました",
    "当サイトでは利便性向上のためCookieを使用しています。詳しくはプライバシーポリシーをご覧ください。",
];
