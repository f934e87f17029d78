//! The words by which a sentence shows what it is: a rule, a decision, something open. One table for English and
//! Japanese. Says nothing about what follows from them.

use std::sync::LazyLock;

use super::lexicon::Lexicon;

/// What the words of a text show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cues(u32);

impl Cues {
    pub(super) const RULE: Self = Self(1);
    pub(super) const WISH: Self = Self(1 << 1);
    /// Something takes the place of something else.
    pub(super) const CHANGE: Self = Self(1 << 2);
    pub(super) const DECISION: Self = Self(1 << 3);
    /// Something was made, added, removed.
    pub(super) const MADE: Self = Self(1 << 4);
    /// Something is over: done, fixed.
    pub(super) const DONE: Self = Self(1 << 5);
    pub(super) const OPEN: Self = Self(1 << 6);
    pub(super) const WRONG: Self = Self(1 << 7);
    /// A finding: the root cause, it turns out.
    pub(super) const FOUND: Self = Self(1 << 8);
    pub(super) const GOAL: Self = Self(1 << 9);
    /// The model agrees, is polite, or tells what it is about to look at.
    pub(super) const TALK: Self = Self(1 << 10);
    /// What somebody is going to do.
    pub(super) const PLAN: Self = Self(1 << 11);
    /// Another task begins.
    pub(super) const NEW_TASK: Self = Self(1 << 12);
    /// The user goes on to something else, or is content with what was done.
    pub(super) const NEXT: Self = Self(1 << 13);
    /// The user wants something done.
    pub(super) const ASK: Self = Self(1 << 14);

    /// The cues of a text.
    pub(super) fn of(text: &str) -> Self {
        #[cfg(test)]
        super::tests::work(text.len());
        Self(TABLE.of(text))
    }

    /// These and others.
    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any of these is there.
    pub(super) fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

static TABLE: LazyLock<Lexicon> =
    LazyLock::new(|| Lexicon::new(WORDS.iter().map(|(cues, list)| (cues.0, *list))));

/// As [`Lexicon::new`] wants them.
#[rustfmt::skip]
const WORDS: &[(Cues, &str)] = &[
    (Cues::NEW_TASK, "new task, next task, another task, different task, new topic, different topic, separate task, new request, \
        別件, 次のタスク, 新しいタスク, 別のタスク, 別の作業, 話は変わ"),
    (Cues::NEXT, "^now, ^next, ^great, ^thanks, ^thank you, ^perfect, ^nice, ^good, ^awesome, ^cool, ^ok+ now, ^ok+ next, \
        ^excellent, ^lgtm, ^merged, ^works, ^次は, ^次に, ^では, ^それでは, ^じゃあ, ^ありがとう, ^完璧, ^いいですね, ^お疲れ"),
    (Cues::ASK, "please, can you, could you, would you, want you to, need you to, like you to, let's, we need to, i want, i need, \
        we want, wants, ください, 下さい, お願い, ほしい, 欲しい, しましょう, でいこう, 頼む"),
    (Cues::RULE, "must, mustn't, never, always, do not, don't, not allowed, forbid*, prohibit*, under no circumstances, required, \
        requirement*, constraint*, mandatory, no matter what, at most, at least, no more than, no less than, not exceed, no \
        longer than, no later than, only use, only ever, may only, can only, off limits, off-limits, hands off, without, \
        avoid, make sure, ensure, important, critical, hard limit, whatever you do, untouched, unchanged, intact, as it is, \
        as they are, stay as, stays as, deadline, keep in mind, remember, rule, rules, guidelines, conventions, policy, \
        please no, allerg*, shall, stay under, stay below, stay within, is fixed, cannot, can't, won't, shouldn't, should \
        not, may not, read-only, has to, have to, needs to, ^no, ^only, ^keep, limit*, nothing in, nobody, and nothing, \
        アレルギー, 必ず, 絶対, 禁止, してはいけ, してはなら, しないで, ないでください, ないこと, 厳守, 必須, 以内, 以下に, 以上に, 以上は, \
        未満, までに, のみ, だけ, 限り, 避けて, 守って, 条件, 制約, 注意, 重要, ルール, 方針, 触らない, 触れない, 変更しない, 変えない, \
        使わない, ダメ, 駄目, べきでは, 厳禁, 不可, 忘れず, 忘れない, 期限, 締め切り, 締切, 上限, 下限, 保って, 維持し, ようにして, そのまま"),
    (Cues::WISH, "please, should, want, wants, would like, i'd like, prefer*, need, needs, ^use, let's, we'll, we will, go with, \
        ^follow, expect*, as long as, stick with, stick to, rather, ^cap, ^set, ^ask, ^tell, ^stop, ^put, ^leave, ^treat, \
        ^assume, ^have, can you, could you, would you, \
        ください, 下さい, お願い, ほしい, 欲しい, たい, 使って, 使う, にして, こと。, すること, べき, 希望, 優先, で行, してね, しましょう"),
    (Cues::CHANGE, "instead, no longer, not anymore, anymore, chang*, switch*, replac*, supersede*, scratch that, forget, on second \
        thought, actually, correction, corrected, from now on, as of now, revert*, roll back, rolled back, drop*, cancel*, \
        updated to, update:, now, bump*, renam*, ignore, overrul*, obsolete, outdated, deprecated, abandon*, raised to, \
        lowered to, raise the, lower the, relax*, extended to, postponed, in place of, moved to, moved from, becomes, \
        used to be, revis*, amend*, never mind, no need, hold off, after all, stop using, retir*, i meant, going forward, \
        代わりに, かわりに, ではなく, じゃなく, でなく, やめ, 止めて, 止めま, 変更, 変わ, 変えて, 変えま, 切り替, 切替, 取り消, 撤回, 廃止, \
        今後は, これからは, 以降は, 訂正, やはり, やっぱ, 改め, 見直, 置き換え, 差し替え, 移行, 無効, 勘違い, 間違い, 誤り, 中止, 延期, \
        延長, 前倒し, 引き上げ, 引き下げ, になりました, となりました, にします, にしよう"),
    (Cues::DECISION, "decid*, decision*, chose, chosen, choose, settled, settle on, agreed, we'll use, we will use, i'll use, i will \
        use, going with, go with, went with, went for, opted, opt for, let's use, let's go, let's keep, stick with, sticking \
        with, adopt*, approach, the plan, plan for, plan:, conclusion, conclude*, verdict, picked, pick, selected, approved, \
        rejected, ruled out, trade-off, tradeoff, design:, we keep, will live, is the way, resolution:, instead of, rather \
        than, in favour of, in favor of, finali*, strategy, we're using, standardi*, prefer*, \
        決定, 決め, 決まり, 採用, ことにし, ことにな, ことにす, 方針, 選択, 選定, 選び, 選ん, 結論, 合意, 却下, 見送, で行き, でいき, \
        進めま, 代わりに, ではなく, 設計, 計画, 確定, とします, にします, とする, 承認, 判断"),
    (Cues::MADE, "added, created, updated, removed, deleted, renamed, moved, implemented, refactored, wrote, rewrote, changed, \
        modified, replaced, introduced, extracted, split, merged, committed, pushed, deployed, installed, configured, migrated, \
        patched, applied, enabled, disabled, set up, wired up, ported, generated, bumped, upgraded, published, released, opened, \
        追加しま, 作成しま, 更新しま, 削除しま, 実装しま, 修正しま, 変更しま, 移動しま, 導入しま, 設定しま, 書き換え, 置き換え, 適用しま, \
        有効化, 無効化, デプロイしま, コミットしま, 反映しま, 登録しま, 公開しま, 対応しま"),
    (Cues::DONE, "done, finished, completed, complete, fixed, resolved, closed, solved, passes now, pass now, now passes, now pass, \
        passing now, is gone, are gone, works now, now works, went away, all green, is green, are green, merged, landed, \
        shipped, [x], taken care of, sorted out, cleared, is in place, 終わりま, は済み, 通って, 直って, 完了, 済み, 済です, 終わった, \
        終了しま, 解決しま, 解決済, 解消, 直りま, 直しま, 修正済, 対応済, 成功しま, 通りま, マージしま, クローズ, 実装しま, 修正しま, なくなりま"),
    (Cues::OPEN, "todo, to do:, to-do, open:, next step*, next:, next up, remaining, remains, still need*, still have to, still to, \
        still open, still missing, not yet, later, follow-up, follow up, open question*, open item*, open point*, unresolved, \
        blocked, blocker*, pending, waiting for, waiting on, left to do, what's left, is left, are left, afterwards, \
        outstanding, unfinished, unclear, to be decided, tbd, needs review, need to check, need to verify, need to confirm, \
        yet to, [ ], come back to, revisit, awaiting, backlog, 残り, 残って, 残タスク, 未対応, 未実装, 未解決, 未完了, 未確認, 未着手, \
        未定, 次に, 次は, 次の作業, あとで, 後で, 後ほど, 保留, 要確認, 待ち, まだ, 残課題, 宿題, やること, 検討中, タスク:, タスク："),
    (Cues::WRONG, "error, errors, fail, fails, failed, failing, failure, exception, panic*, crash*, fatal, broken, breaks, bug, \
        regress*, timed out, refused, rejected with, denied, aborted, segfault, traceback, stack trace, deadlock, corrupt*, \
        leak, leaks, flaky, unexpected, not found, conflict, hangs, returned 4, returned 5, exit code, status code, \
        エラー, 失敗, 例外, 落ち, クラッシュ, 不具合, バグ, 異常, 拒否, タイムアウト, 見つかりません, 壊れ, 停止しま, 障害"),
    (Cues::FOUND, "root cause, turns out, caused by, because, the cause, the reason, the problem is, the issue is, culprit, found \
        that, found the, found it, found a, discovered, noticed, confirmed, it seems, apparently, note:, note that, for \
        reference, fyi, by the way, summary:, result:, results:, learned, measured, the value is, is set to, lives in, is in, \
        is at, is on, located, listens on, points to, owned by, owner is, assigned to, tracked in, tracked as, ticket, \
        reference, recorded, contact, 原因, 判明, 分かりま, わかりま, 見つかりま, 発見, 確認しました, 確認できました, 理由, 結果, なお, \
        参考, ちなみに, まとめ, 担当, 番号, チケット, 記録, にあります, 問題は"),
    (Cues::GOAL, "the goal, our goal, your goal, goal:, objective, the aim, your task, the task is, task:, we want to, i want you \
        to, i need you to, mission, the purpose, acceptance criteria, definition of done, \
        目的, 目標, ゴール, 今回の作業, やりたいこと, 依頼, タスクは, 達成"),
    (Cues::TALK, "thanks, thank you, great, you're welcome, happy to help, my pleasure, ^let me, ^i'll look, ^i'll check, ^i'll read, \
        ^i'll run, ^i'll search, ^i'll start, ^i'll take a, ^i'll go, ^i'll see, ^i'll try, ^i'll continue, ^i'll have a, ^i'll \
        now, ^i'll first, ^i'll open, ^i'll begin, ^i'll get, ^i will look, ^i will check, ^i will now, ^now i, ^now let, \
        ^looking at, ^checking, ^reading, ^opening, ^next+ i, ^first+ i, ^first+ let, ^ok, ^okay, ^alright, ^sure, ^going to, \
        ^i'm going to, ^running, ^one moment, ^i can see, ^i see, ^here is, ^here's, ^let's look, ^let's see, ^let's check, \
        ^time to, ^searching, ^on it, ^will do, ^working on it, ^nothing unusual, ^as expected, ^that looks, ^this looks, \
        ^moving on, ^understood, ^got it, ^noted, ^right, ^of course, ^certainly, ^agreed, ^makes sense, ^good point, \
        見てみま, 見ていきま, 確認します, 調べます, 調べてみ, 読みます, 読んでみ, 開きます, 実行します, 検索します, 見ます, 進めます, 続けます, \
        始めます, 取りかかりま, 少々お待ち, 探します, ^了解, ^承知, ^わかりました, ^分かりました, ^かしこまり, ^はい, ^ありがとう"),
    (Cues::PLAN, "i propose, i suggest, i intend, i'd start, i'd go, my plan, ^plan:, ^i'd, ^i'll, ^i will, ^we'll, ^we will, ^i'm \
        going with, ^i would, ^we should, ^we can, ^i plan, ^we plan, 予定です, つもり, 用意します, 置きます, 持たせます, いきます, 行います"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whole_and_in_both_languages() {
        for (text, cues, there) in [
            ("You must not do that", Cues::RULE, true),
            ("The mustard is yellow", Cues::RULE, false),
            ("NEVER touch it", Cues::RULE, true),
            ("We decided on it", Cues::DECISION, true),
            ("undecided", Cues::DECISION, false),
            ("必ずテストを書いてください", Cues::RULE, true),
            ("ポートは6543に変更", Cues::CHANGE, true),
            ("Let me look", Cues::TALK, true),
            ("Please let me look", Cues::TALK, false),
            ("Now, I look", Cues::NEXT, true),
            ("- [ ] open", Cues::OPEN, true),
            ("", Cues::RULE, false),
        ] {
            assert_eq!(Cues::of(text).any(cues), there, "{text}");
        }
    }
}
