//! Owns minutes, tickets and mails that are read on the way: talk of other people about other things.

use super::forms::{Form, form};

/// The form of a document in which people talk.
pub(super) fn minutes(ja: bool) -> Form {
    if ja {
        form("# 定例会議 議事録 (第$2回)\n出席: $p、$p、$p\n", JA, "\n次回: 未定 / 記録: $p")
    } else {
        form("# Weekly notes, no. $2\nPresent: $p, $p, $p\n", EN, "\nNext meeting: to be announced. Notes by $p.")
    }
}

const EN: &[&str] = &[
    "- $p showed the new $n screen. People liked it, some wished for larger $m. No action.",
    "- $n: last week's numbers were read out ($3 and $4). They are in line with those of the year before.",
    "**$p wrote:** I tried the $m thing on my machine and it took $2 minutes, on the other one only $1. Might be the disk. Has anybody else seen this?",
    "**$p wrote:** +1, same for $n. I worked around it by closing the other window.",
    "- Question by $p whether $n could be merged with $m one day. Opinions differ, put on the list for next year.",
    "- The office is closed on the $1th; the coffee machine on floor $1 is broken again.",
    "> From: $p\n> Subject: Re: Re: $n and $m\n>\n> Hi all, thanks for the lively discussion. I think we mostly agree that $o is nice to have. I will write something up when I find the time.",
    "- Training for $m: $2 people registered, $1 cancelled. Slides are on the intranet.",
    "- $p reported that the $s dashboard was slow on Monday. It recovered by itself within $2 minutes.",
    "- Long discussion about names: should it be called $n or $m? Postponed once more.",
];

const JA: &[&str] = &[
    "- $pさんより$jの新しい画面の紹介があった。概ね好評。文字を大きくしてほしいという意見も出たが、特に対応は決めていない。",
    "- $jの先週の実績を共有($3件、前週は$3件)。例年と同じ程度であり、議論はなかった。",
    "**$pさん:** $kの件、手元で試したら$2分かかりました。別の端末では$1分だったので、たぶんディスクの差だと思います。ほかに見た方いますか?",
    "**$pさん:** うちも同じです。別の画面を閉じたら直りましたので、そのまま様子を見ています。",
    "- $jと$kを将来ひとつにまとめられないかという質問があった。意見が分かれたため、来年度の検討事項とした。",
    "- $1日は設備点検のため、午後から会議室が使えない。給湯室の機械がまた故障している。",
    "> 差出人: $p\n> 件名: Re: Re: $jについて\n>\n> 皆さま、活発なご議論をありがとうございます。$kはあれば便利という点では一致していると思いますので、時間のあるときに案を書いてみます。",
    "- $kの研修には$2名が申し込み、$1名が取り消した。資料は社内の掲示板に置いてある。",
    "- 月曜に$sの画面が重かったとの報告。$2分ほどで自然に戻ったため、原因までは追っていない。",
    "- $jという呼び方でよいかについて長く話し合ったが、結論は出ず、今回も持ち越しとなった。",
    "- $pさんが来月から別の部署を兼務する。$lの資料の置き場所は今のまま変わらない。",
];
