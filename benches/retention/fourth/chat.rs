//! Owns small talk: steps and findings of the assistant, and remarks of the user, that nobody would note down.

use super::dice::Dice;
use super::noise::{Kit, fill};

/// What the assistant says before it calls a tool.
pub(super) fn step(dice: &mut Dice, kit: &Kit<'_>) -> String {
    let of = if kit.ja { STEP_JA } else { STEP_EN };
    fill(dice.pick(of), dice, kit)
}

/// What the assistant says after it.
pub(super) fn finding(dice: &mut Dice, kit: &Kit<'_>) -> String {
    let (of, joint) = if kit.ja { (FINDING_JA, "") } else { (FINDING_EN, " ") };
    if dice.chance(25) {
        let (heads, items) = if kit.ja { (REPORT_JA, ITEM_JA) } else { (REPORT_EN, ITEM_EN) };
        let mut lines = vec![fill(dice.pick(heads), dice, kit)];
        for _ in 0..dice.range(3, 8) {
            lines.push(format!("- {}", fill(dice.pick(items), dice, kit)));
        }
        return lines.join("\n");
    }
    let mut sentences: Vec<String> = Vec::new();
    for _ in 0..dice.range(1, 4) {
        let sentence = fill(dice.pick(of), dice, kit);
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences.join(joint)
}

/// What the user says in between, in his style.
pub(super) fn user(dice: &mut Dice, kit: &Kit<'_>, style: &str) -> String {
    let of = match (kit.ja, style) {
        (true, "polite") => USER_JA_POLITE,
        (true, "plain") => USER_JA_PLAIN,
        (true, _) => USER_JA_CHAT,
        (false, "polite") => USER_EN_POLITE,
        (false, "terse") => USER_EN_TERSE,
        (false, _) => USER_EN_CHATTY,
    };
    fill(dice.pick(of), dice, kit)
}

const STEP_EN: &[&str] = &[
    "Let me look at $n next.",
    "Checking how $n is used.",
    "I'll read the part about $m first.",
    "Now the $n side.",
    "One moment, looking for other callers of $v_$n.",
    "Let me see what is in $d.",
    "I want to be sure about $m, so let me look.",
    "Running it again to compare.",
    "Next: $n.",
    "That leaves $m; opening it.",
    "Let me check the neighbours of $n.",
    "Going through $d for leftovers.",
    "A quick look at the recent output.",
    "I'll check whether $n has anything to do with it.",
    "Reading on.",
    "Let me get some context on $o before I touch anything.",
];

const FINDING_EN: &[&str] = &[
    "Nothing unusual in there; $n looks the way I would expect.",
    "That is only helper code around $n.",
    "So $n calls $m, which calls $o. No surprise.",
    "The warnings about $n were there before, I leave them alone.",
    "Looks fine so far. I go on with $m.",
    "I read through it: mostly boilerplate for $n.",
    "Okay, that matches what the README says about $m.",
    "No hits that matter.",
    "This part is unrelated to what we are doing.",
    "The slow $n lines come from the nightly job and are harmless.",
    "That worked. On to $m.",
    "I had expected more $n here, but it is consistent.",
    "Good, the $m part is done and the checks are green.",
];

const USER_EN_TERSE: &[&str] = &[
    "ok",
    "go on",
    "fine",
    "yes",
    "k, next",
    "looks ok",
    "any news?",
    "continue please",
    "sure",
    "what about $n?",
    "hm, ok",
];
const USER_EN_POLITE: &[&str] = &[
    "Thank you, that is helpful. Please carry on.",
    "I see. Could you look at $n as well when you have a moment?",
    "Thanks, no hurry.",
    "That sounds reasonable to me.",
    "I will be in a meeting for half an hour, please just continue.",
    "Much appreciated. How is $m coming along?",
    "Good, thank you for checking.",
];
const USER_EN_CHATTY: &[&str] = &[
    "haha, $n again, of course. keep going",
    "coffee's here, back in five. carry on",
    "nice! that was quicker than I thought",
    "hm I never understood why $n and $m are separate things but whatever",
    "okay cool, so what's next on the list?",
    "ugh, that log is noisy. don't mind it",
    "sounds good to me :)",
    "I remember when $m was $2 lines long. good times",
    "sorry, was on the phone. where are we?",
];

const STEP_JA: &[&str] = &[
    "次に$jを確認します。",
    "$jの使われ方を調べます。",
    "先に$kの部分を読みます。",
    "続いて$j側を見ます。",
    "$v_$nの呼び出し元を探します。",
    "$dの中身を確認します。",
    "念のため$kも見ておきます。",
    "比較のためもう一度実行します。",
    "残りは$kですので、開いてみます。",
    "$j周辺を一通り確認します。",
    "直近の出力を見てみます。",
    "$jが関係しているか調べます。",
    "続きを読みます。",
    "変更の前に$lの状況を把握しておきます。",
];

const FINDING_JA: &[&str] = &[
    "特に変わった点はありません。$jは想定どおりです。",
    "$jまわりの補助的なコードだけでした。",
    "$jから$k、$kから$lという呼び出しの流れです。",
    "$jの警告は以前からのもので、今回は触れません。",
    "ここまでは問題なさそうです。$kに進みます。",
    "ひととおり読みましたが、ほぼ定型的な記述でした。",
    "READMEの$kの説明と一致しています。",
    "該当する箇所は見当たりませんでした。",
    "この部分は今回の作業とは関係がありません。",
    "遅延の行は定期処理によるもので、害はありません。",
    "うまくいきました。次は$kです。",
    "$kの分は終わり、チェックも通っています。",
];

const USER_JA_POLITE: &[&str] = &[
    "ありがとうございます。そのまま進めてください。",
    "承知しました。$jの方もお時間のあるときに見ていただけますか。",
    "確認ありがとうございます。急ぎではありません。",
    "問題ないと思います。よろしくお願いいたします。",
    "30分ほど会議に入りますので、続けておいてください。",
    "助かります。$kの状況はいかがでしょうか。",
];
const USER_JA_PLAIN: &[&str] = &[
    "了解。続けて。",
    "それでいい。",
    "次に進んで。",
    "$jはどうなった?",
    "特に問題ない。",
    "わかった、任せる。",
    "なるほど。続きを頼む。",
];
const USER_JA_CHAT: &[&str] = &[
    "おけー、続けて〜",
    "また$jか…まあいいや、次いこう",
    "ちょっとコーヒー取ってくる、進めといて",
    "思ったより早いね、助かる!",
    "このログうるさいよね、気にしないで",
    "ごめん電話してた。今どこまで?",
    "いいね👍",
    "$jと$k、なんで分かれてるんだろうね笑",
];

const REPORT_EN: &[&str] = &[
    "What I looked at so far:",
    "For the record, in no special order:",
    "Short notes on $d:",
    "I went through it file by file:",
];
const ITEM_EN: &[&str] = &[
    "`$v_$n` is called from $2 places, all of them in tests or tools, and none passes a $m",
    "$d has $2 files about $n; the oldest is from 2019 and nobody has touched it since",
    "the $m part repeats what $n does, with other names. Ugly, but not our topic",
    "$p wrote most of $n, in $2 commits, the last one renames variables",
    "$n and $m share a helper; I read it and it does what its name says",
    "about $3 lines of generated code for $o, skipped",
    "the comment over `$u_$m` is out of date, the code itself is fine",
];
const REPORT_JA: &[&str] = &[
    "ここまでに見たものを書いておきます。",
    "順不同ですが、控えです。",
    "$dについての短い覚え書きです。",
    "一つずつ確認した結果です。",
];
const ITEM_JA: &[&str] = &[
    "`$v_$n`は$2か所から呼ばれていますが、すべて試験用か補助の道具でした",
    "$dには$jに関するファイルが$2個あり、最も古いものは2019年から変わっていません",
    "$kの部分は$jと同じことを別の名前で行っています。見栄えは悪いですが今回の対象外です",
    "$jの大半は$pさんが書いたもので、最後の変更は変数名の整理だけです",
    "$jと$kは同じ補助関数を使っています。読みましたが名前どおりの動きでした",
    "$lの自動生成コードが$3行ほどあり、読み飛ばしました",
    "`$u_$m`の上の説明が古いままですが、処理自体は正しいです",
];
