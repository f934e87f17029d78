//! Lists of words: those that say nothing about what a sentence speaks of, and the endings of files.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Whether a word says nothing about what a sentence speaks of.
pub(super) fn is_small(word: &str) -> bool {
    const LONGEST: usize = 9;
    let mut lower = [0; LONGEST];
    let Some(lower) = lower.get_mut(..word.len()) else { return false };
    lower.copy_from_slice(word.as_bytes());
    lower.make_ascii_lowercase();
    SMALL.contains(&*lower)
}

/// The hash of what a word has in common with its other forms: log, logs, logging and logged are one.
pub(super) fn stem(word: &str) -> u32 {
    const LONGEST: usize = 24;
    /// Letters that count.
    const STEM: usize = 6;
    let bytes = word.as_bytes();
    let mut lower = [0; LONGEST];
    let length = bytes.len().min(LONGEST);
    lower[..length].copy_from_slice(&bytes[..length]);
    lower.make_ascii_lowercase();
    let mut stem = &lower[..length];
    let cut = |stem: &mut &[u8], ending: &str, least: usize| {
        let shorter = stem.strip_suffix(ending.as_bytes()).filter(|shorter| shorter.len() >= least);
        if let Some(shorter) = shorter {
            *stem = &stem[..shorter.len()];
        }
        shorter.is_some()
    };
    if bytes.len() <= LONGEST && word.is_ascii() {
        let _ = cut(&mut stem, "'s", 2);
        if !stem.ends_with(b"ss") {
            let _ = cut(&mut stem, "s", 3);
        }
        let _ = cut(&mut stem, "ing", 3) || cut(&mut stem, "ed", 3) || cut(&mut stem, "ie", 3);
        let vowel = stem.len() > 1 && b"aeiou".contains(&stem[stem.len() - 2]);
        let _ = cut(&mut stem, "e", 3) || !vowel && cut(&mut stem, "y", 3) || cut(&mut stem, "i", 3);
        if let [.., one, two] = stem
            && one == two
            && stem.len() > 3
        {
            stem = &stem[..stem.len() - 1];
        }
    }
    let stem = &stem[..stem.len().min(STEM)];
    let long = stem.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (long ^ long >> 32) as u32
}

/// The same of a kanji or a pair of them.
pub(super) fn is_small_run(run: &str) -> bool {
    SMALL_RUNS.contains(run.as_bytes())
}

/// Whether files end like that.
pub(super) fn is_ending(ending: &str) -> bool {
    const LONGEST: usize = 10;
    let mut lower = [0; LONGEST];
    let Some(lower) = lower.get_mut(..ending.len()) else { return false };
    lower.copy_from_slice(ending.as_bytes());
    lower.make_ascii_lowercase();
    ENDINGS.contains(&*lower)
}

static SMALL: LazyLock<HashSet<&[u8]>> = LazyLock::new(|| set(SMALL_WORDS));
static SMALL_RUNS: LazyLock<HashSet<&[u8]>> = LazyLock::new(|| set(SMALL_KANJI));
static ENDINGS: LazyLock<HashSet<&[u8]>> = LazyLock::new(|| set(FILE_ENDINGS));

fn set(words: &'static str) -> HashSet<&'static [u8]> {
    words.split_whitespace().map(str::as_bytes).collect()
}

/// With the verbs that stand in every second instruction.
const SMALL_WORDS: &str = "\
    about above actually add added after again all already also always am an and any anymore are as at back \
    be because been before being but by can cannot change changed complete could create created decided \
    decision did do does doing done each earlier either else even ever every extended few finish finished \
    first fix fixed for forget from get given go goes going good got had has have here how if implement in \
    instead into is it its just keep kept know last later left let live lives ll longer look \
    lower lowered made make may me might mind more most move moved moves moving much must my need needs \
    never new next no not note now of off on once one only onto open or other our out over pending plan \
    please put raise raised rather re really remaining remains replace replaced run s said same says second \
    see set shall should so some stay stays step still such sure switch switched take than that the their \
    them then there these they thing this those thought through to todo told too two under until up update \
    updated us use used uses using ve very want was way we well went were what when where which while who \
    why will with without would write written wrote yes yet you your";

const SMALL_KANJI: &str = "\
    変更 必要 今後 以降 場合 使用 利用 対応 確認 修正 追加 設定 作業 実装 処理 以前 今回 \
    最初 最後 現在 決定 採用 方針 代替 絶対 必須 禁止 完了 お願 今 後 前 方 件 時 使 \
    行 出 見 変 新 旧 進 番 秒 分 日 月 年 回 私 事 者 中 上 下 内 外 間 残 作成 \
    作 等 用 的 願 致";

/// Of files that agents work on.
const FILE_ENDINGS: &str = "\
    rs py pyi ts tsx js jsx mjs cjs go java kt kts rb php c h cc cpp hpp cs swift scala clj ex exs erl hs ml \
    lua pl r jl dart zig vue svelte toml yaml yml json jsonl json5 md mdx rst txt sql sh bash zsh ps1 bat \
    css scss less html htm xml svg csv tsv lock proto graphql ini cfg conf config properties env tf tfvars \
    hcl gradle ipynb log png jpg jpeg gif webp pdf docx xlsx pptx parquet avro db sqlite patch diff tmpl j2 \
    hbs ejs tpl service pem crt key zip gz tar tgz zst wasm snap feature cmake mk nix plist rules bin dat \
    bak out";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for (one, other) in [
            ("log", "Logging"),
            ("rotate", "rotated"),
            ("rotate", "rotating"),
            ("retry", "retries"),
            ("deploy", "deployment"),
            ("ship", "shipped"),
            ("limit", "limits"),
            ("bundle", "bundling"),
        ] {
            assert_eq!(stem(one), stem(other), "{one} {other}");
        }
        for (one, other) in [("port", "part"), ("row", "rows9"), ("test", "text"), ("class", "clas")] {
            assert_ne!(stem(one), stem(other), "{one} {other}");
        }
    }

    #[test]
    fn words_are_found_in_any_case() {
        assert!(is_small("the") && is_small("The") && is_small("Actually") && is_small_run("変更"));
        assert!(
            !is_small("database") && !is_small("") && !is_small("averylongword") && !is_small_run("監査")
        );
        assert!(is_ending("rs") && is_ending("YAML") && !is_ending("properly") && !is_ending("日本"));
        assert!(SMALL_WORDS.split_whitespace().all(is_small), "a word is longer than is looked for");
        assert!(FILE_ENDINGS.split_whitespace().all(is_ending));
    }
}
