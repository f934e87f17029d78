//! The keywords by which a text shows what it is: a rule, a request, a decision, an error. One table for English and Japanese,
//! searched in one pass.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// What the keywords of a text show, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct KeywordSet(u32);

impl KeywordSet {
    /// Another task begins.
    pub(super) const NEW_TASK: Self = Self(1);
    /// The user goes on to something else, or is content with what was done.
    pub(super) const NEXT: Self = Self(1 << 1);
    /// Somebody wants something done.
    pub(super) const REQUEST: Self = Self(1 << 2);
    /// It is the goal of the work.
    pub(super) const GOAL: Self = Self(1 << 11);
    /// Something must hold, or must not happen.
    pub(super) const RULE: Self = Self(1 << 3);
    /// Something was chosen.
    pub(super) const DECISION: Self = Self(1 << 4);
    /// Something was made, changed or finished.
    pub(super) const DONE: Self = Self(1 << 5);
    /// Something is still to be done.
    pub(super) const OPEN: Self = Self(1 << 6);
    /// Something went wrong.
    pub(super) const ERROR: Self = Self(1 << 7);
    /// Nothing went wrong, although a word says so.
    pub(super) const NO_ERROR: Self = Self(1 << 8);
    /// All went well.
    pub(super) const SUCCESS: Self = Self(1 << 9);
    /// Something was found out.
    pub(super) const FINDING: Self = Self(1 << 10);
    /// The model is polite, or says what it is about to look at.
    pub(super) const NARRATION: Self = Self(1 << 12);

    /// Returns what the keywords of a text show.
    pub(super) fn of(text: &str) -> Self {
        Self(TABLE.hits(text).fold(0, |all, (_, shows)| all | shows.0))
    }

    /// Returns whether any of these is there.
    pub(super) fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns where a line says that something went wrong.
    pub(super) fn error_at(line: &str) -> Option<usize> {
        let mut first = None;
        for (at, shows) in TABLE.hits(line) {
            if shows.any(Self::NO_ERROR) {
                return None;
            }
            first = first.or(shows.any(Self::ERROR).then_some(at));
        }
        first
    }
}

/// The keywords, ready to be searched for.
struct KeywordTable {
    automaton: AhoCorasick,
    keywords: Vec<Keyword>,
}

/// A keyword: what it shows, and where it counts.
struct Keyword {
    shows: KeywordSet,
    at_start: bool,
    open_start: bool,
    open_end: bool,
}

static TABLE: LazyLock<KeywordTable> = LazyLock::new(|| {
    let (mut words, mut keywords) = (Vec::new(), Vec::new());
    for (shows, list) in WORDS {
        for word in list.split(',').map(str::trim) {
            let (at_start, open_start, open_end) =
                (word.starts_with('^'), word.starts_with('*'), word.ends_with('*'));
            words.push(word.trim_start_matches(['^', '*']).trim_end_matches('*').replace('+', ","));
            keywords.push(Keyword { shows: *shows, at_start, open_start, open_end });
        }
    }
    let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(&words);
    #[expect(clippy::expect_used, reason = "the table is constant, and tests build it")]
    KeywordTable { automaton: automaton.expect("a table of a few hundred words"), keywords }
});

impl KeywordTable {
    /// Returns where the keywords of a text end, and what each shows. A keyword of ASCII counts as a whole word only; other
    /// scripts have no borders.
    fn hits<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, KeywordSet)> + 'a {
        #[cfg(test)]
        super::tests::work(text.len());
        let is_word = |at: usize| {
            text.as_bytes().get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        self.automaton.find_overlapping_iter(text).filter_map(move |hit| {
            let keyword = &self.keywords[hit.pattern().as_usize()];
            let (start, end) = (hit.start(), hit.end());
            let goes_on = !keyword.open_end && is_word(end - 1) && is_word(end);
            let is_inside = !keyword.open_start && start > 0 && is_word(start) && is_word(start - 1);
            let is_late = keyword.at_start && start > 0;
            (!goes_on && !is_inside && !is_late).then_some((start, keyword.shows))
        })
    }
}

/// KeywordSet by comma; `^`: only at the beginning of the text, `*`: the word may go on there, `+`: a comma.
#[rustfmt::skip]
const WORDS: &[(KeywordSet, &str)] = &[
    (KeywordSet::NEW_TASK, "new task, next task, another task, different task, new topic, different topic, separate task, new request, \
        別件, 次のタスク, 新しいタスク, 別のタスク, 別の作業, 話は変わ"),
    (KeywordSet::NEXT, "^now, ^next, ^great, ^thanks, ^thank you, ^perfect, ^nice, ^good, ^awesome, ^cool, ^ok+ now, ^ok+ next, \
        ^excellent, ^lgtm, ^merged, ^works, ^次は, ^次に, ^では, ^それでは, ^じゃあ, ^ありがとう, ^完璧, ^いいですね, ^お疲れ"),
    (KeywordSet::REQUEST, "please, can you, could you, would you, want you to, need you to, like you to, let's, we need to, i want, \
        i need, we want, wants, ください, 下さい, お願い, ほしい, 欲しい, しましょう, でいこう, 頼む"),
    (KeywordSet::GOAL, "the goal, our goal, your goal, goal:, objective, the aim, your task, the task is, task:, we want to, i want you \
        to, i need you to, mission, the purpose, acceptance criteria, definition of done, \
        目的, 目標, ゴール, 今回の作業, やりたいこと, 依頼, タスクは, 達成"),
    (KeywordSet::RULE, "must, mustn't, never, always, do not, don't, not allowed, forbid*, prohibit*, under no circumstances, required, \
        requirement*, constraint*, mandatory, no matter what, at most, at least, no more than, no less than, not exceed, no \
        longer than, no later than, only use, only ever, may only, can only, off limits, off-limits, hands off, without, \
        avoid, make sure, ensure, important, critical, hard limit, whatever you do, untouched, unchanged, intact, as it is, \
        as they are, stay as, stays as, deadline, keep in mind, remember, rule, rules, guidelines, conventions, policy, \
        please no, allerg*, shall, stay under, stay below, stay within, is fixed, cannot, can't, won't, shouldn't, should \
        not, may not, read-only, has to, have to, needs to, ^no, ^only, ^keep, limit*, nothing in, nobody, and nothing, \
        アレルギー, 必ず, 絶対, 禁止, してはいけ, してはなら, しないで, ないでください, ないこと, 厳守, 必須, 以内, 以下に, 以上に, 以上は, \
        未満, までに, のみ, だけ, 限り, 避けて, 守って, 条件, 制約, 注意, 重要, ルール, 方針, 触らない, 触れない, 変更しない, 変えない, \
        使わない, ダメ, 駄目, べきでは, 厳禁, 不可, 忘れず, 忘れない, 期限, 締め切り, 締切, 上限, 下限, 保って, 維持し, ようにして, そのまま"),
    (KeywordSet::DECISION, "decid*, decision*, chose, chosen, choose, settled, settle on, agreed, we'll use, we will use, i'll use, \
        i will use, going with, go with, went with, went for, opted, opt for, let's use, let's go, let's keep, stick with, \
        adopt*, approach, the plan, plan for, plan:, conclu*, verdict, picked, pick, selected, approved, rejected, ruled out, \
        trade-off, tradeoff, design:, we keep, will live, resolution:, instead of, rather than, in favour of, in favor of, \
        finali*, strategy, we're using, standardi*, prefer*, \
        決定, 決め, 決まり, 採用, ことにし, ことにな, ことにす, 方針, 選択, 選定, 選び, 選ん, 結論, 合意, 却下, 見送, で行き, でいき, \
        進めま, 代わりに, ではなく, 設計, 計画, 確定, とします, にします, とする, 承認, 判断"),
    (KeywordSet::DONE, "added, created, updated, removed, deleted, renamed, moved, implemented, refactored, wrote, rewrote, changed, \
        modified, replaced, introduced, extracted, split, merged, committed, pushed, deployed, installed, configured, migrated, \
        patched, applied, enabled, disabled, ported, generated, upgraded, published, released, done, finished, complete*, fixed, \
        resolved, closed, solved, passes now, pass now, now pass*, is gone, are gone, works now, now works, went away, all green, \
        is green, are green, landed, shipped, [x], taken care of, sorted out, is in place, 追加しま, 作成しま, 更新しま, 削除しま, \
        実装しま, 修正しま, 変更しま, 移動しま, 導入しま, 設定しま, 書き換え, 置き換え, 適用しま, デプロイしま, コミットしま, 反映しま, \
        登録しま, 公開しま, 対応しま, 終わりま, 通って, 直って, 完了, 済み, 済です, 終わった, 終了しま, 解決しま, 解消, 直りま, 直しま, \
        修正済, 対応済, 成功しま, 通りま, マージしま, クローズ, なくなりま"),
    (KeywordSet::OPEN, "todo, to do:, to-do, open:, next step*, next:, next up, remaining, remains, still need*, still have to, still to, \
        still open, still missing, not yet, later, follow-up, follow up, open question*, open item*, open point*, unresolved, \
        blocked, blocker*, pending, waiting for, waiting on, left to do, what's left, is left, are left, afterwards, \
        outstanding, unfinished, unclear, to be decided, tbd, needs review, need to check, need to verify, need to confirm, \
        yet to, [ ], come back to, revisit, awaiting, backlog, 残り, 残って, 残タスク, 未対応, 未実装, 未解決, 未完了, 未確認, 未着手, \
        未定, 次に, 次は, 次の作業, あとで, 後で, 後ほど, 保留, 要確認, 待ち, まだ, 残課題, 宿題, やること, 検討中, タスク:, タスク："),
    (KeywordSet::ERROR, "*error*, *errno*, err!, err_*, err-*, fail*, *exception*, panic*, crash*, fatal, broken, breaks, bug, regress*, \
        timed out, *timeout exceeded, refused, reject*, denied, abort*, segfault, segmentation fault, traceback, stack trace, \
        deadlock*, corrupt*, leak, leaks, flaky, unexpected, not found, conflict*, hangs, exit code, exit status, exited with, \
        status code, http 4*, http 5*, http/1.1 4*, http/1.1 5*, status 4*, status 5*, status=4*, status=5*, returned 4*, \
        returned 5*, sqlstate, ora-*, undefined reference, cannot, critical, severe, unreachable, violat*, out of memory, \
        oomkilled, invalid, unable to, could not, *backoff, overflow*, mismatch*, missing, unreadable, ❯, ✗, ✖, ✘, \
        エラー, 失敗, 例外, 落ち, クラッシュ, 不具合, バグ, 異常, 拒否, タイムアウト, 見つかりません, 壊れ, 停止しま, 障害, 違反, 不一致, \
        できません, 読めません, 破損, 欠落, 不正"),
    (KeywordSet::NO_ERROR, "0 failed, no errors, 0 errors, 0 failures, errors: 0, exit code 0, exit code: 0, エラーなし, 失敗 0"),
    (KeywordSet::SUCCESS, "passed, success*, finished, all tests, up to date, ok., 0 failed, exit code 0, 成功, 完了, 合格"),
    (KeywordSet::FINDING, "root cause, turns out, caused by, because, the cause, the reason, the problem is, the issue is, culprit, found \
        that, found the, found it, found a, discovered, noticed, confirmed, it seems, apparently, note:, note that, for \
        reference, fyi, by the way, summary:, result:, results:, learned, measured, the value is, is set to, lives in, is in, \
        is at, is on, located, listens on, points to, owned by, owner is, assigned to, tracked in, tracked as, ticket, \
        reference, recorded, contact, 原因, 判明, 分かりま, わかりま, 見つかりま, 発見, 確認しました, 確認できました, 理由, 結果, なお, \
        参考, ちなみに, まとめ, 担当, 番号, チケット, 記録, にあります, 問題は"),
    (KeywordSet::NARRATION, "^let me, ^let's look, ^let's see, ^let's check, ^i'll, ^i will, ^now i, ^now let, ^next+ i, ^first+ i, ^looking at, \
        ^checking, ^reading, ^running, ^searching, ^going to, ^i'm going to, ^one moment, ^on it, ^will do, ^understood, ^got it, \
        ^noted, ^of course, ^certainly, ^makes sense, ^here is, ^here's, happy to help, my pleasure, you're welcome, \
        見てみま, 見ていきま, 確認します, 調べます, 調べてみ, 読みます, 開きます, 実行します, 見ます, 続けます, 始めます, 少々お待ち, \
        ^了解, ^承知, ^わかりました, ^分かりました, ^かしこまり, ^ありがとう"),
];
