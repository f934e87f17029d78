//! The words by which a sentence shows what it is: a rule, a decision, something open. One table for English and
//! Japanese. Says nothing about what follows from them.

use std::ops::BitOr;
use std::sync::LazyLock;

use super::lexicon::Lexicon;

/// What the words of a text show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cues(u32);

impl Cues {
    /// A rule: must, never.
    pub(super) const RULE: Self = Self(1);
    /// A wish: please, should.
    pub(super) const WISH: Self = Self(1 << 1);
    /// Something takes the place of something else.
    pub(super) const CHANGE: Self = Self(1 << 2);
    /// A decision.
    pub(super) const DECISION: Self = Self(1 << 3);
    /// Something was made, added, removed.
    pub(super) const MADE: Self = Self(1 << 4);
    /// Something is over: done, fixed.
    pub(super) const DONE: Self = Self(1 << 5);
    /// Something is open.
    pub(super) const OPEN: Self = Self(1 << 6);
    /// Something went wrong.
    pub(super) const WRONG: Self = Self(1 << 7);
    /// A finding: the root cause, it turns out.
    pub(super) const FOUND: Self = Self(1 << 8);
    /// What it is all for.
    pub(super) const GOAL: Self = Self(1 << 9);
    /// Politeness.
    pub(super) const CHAT: Self = Self(1 << 10);
    /// What the assistant is about to look at.
    pub(super) const NARRATION: Self = Self(1 << 11);
    /// A file goes elsewhere, or away.
    pub(super) const MOVED: Self = Self(1 << 12);
    /// Not the end of it: still, not yet.
    pub(super) const STILL: Self = Self(1 << 13);
    /// What somebody is going to do.
    pub(super) const PLAN: Self = Self(1 << 15);
    /// The assistant agrees to what it was told.
    pub(super) const AGREED: Self = Self(1 << 14);

    /// The cues of a text.
    pub(super) fn of(text: &str) -> Self {
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

impl BitOr for Cues {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

static TABLE: LazyLock<Lexicon> =
    LazyLock::new(|| Lexicon::new(WORDS.iter().map(|(cues, list)| (cues.0, *list))));

/// As [`Lexicon::new`] wants them.
const WORDS: &[(Cues, &str)] = &[
    (
        Cues::RULE,
        "must, mustn't, never, always, do not, don't, doesn't need, not allowed, forbidden, forbid*, prohibit*, under no \
         circumstances, required, requirement*, constraint*, mandatory, no matter what, at most, at least, no more than, \
         no less than, not exceed, no longer than, no later than, only use, only ever, may only, can only, off limits, \
         off-limits, hands off, without, avoid, make sure, ensure, important, critical, non-negotiable, \
         hard limit, hard requirement, whatever you do, untouched, unchanged, intact, as it is, as they are, stay as, stays as, deadline, keep in mind, remember, rule, rules, guidelines, conventions, policy, please no, allerg*, shall, stay under, stay below, \
         stay within, is fixed, cannot, can't, won't, shouldn't, should not, may not, read-only, has to, have to, needs \
         to, ^no, ^only, ^keep, limit*, nothing in, nobody, \
         アレルギー, 必ず, 絶対, 禁止, してはいけ, してはなら, しないで, ないでください, しないこと, ないこと, 厳守, 必須, 以内, 以下に, \
         以上に, 以上は, 未満, までに, のみ, だけ, 限り, 避けて, 守って, 条件, 制約, 注意, 重要, ルール, 方針, 触らない, \
         触れない, 変更しない, 変えない, 使わない, ダメ, 駄目, べきでは, 厳禁, 不可, 忘れず, 忘れない, 期限, 締め切り, \
         締切, 上限, 下限, 保って, 維持し, ようにして, そのまま, 必要があり",
    ),
    (
        Cues::WISH,
        "please, should, want, wants, would like, i'd like, prefer*, need, needs, ^use, let's, we'll, we will, go with, \
         ^follow, expect*, as long as, stick with, stick to, rather, ^implement, ^add, ^fix, ^write, ^rewrite, ^create, \
         ^update, ^change, ^move, ^rename, ^remove, ^build, ^make, ^support, ^run, ^deploy, ^port, ^migrate, ^refactor, \
         ^test, ^cap, ^set, ^ask, ^tell, ^start, ^stop, ^check, ^look, ^put, ^leave, ^find, ^replace, ^drop, ^switch, ^go, \
         ^give, ^show, ^treat, ^assume, ^have, can you, could you, would you, \
         ください, 下さい, お願い, ほしい, 欲しい, してほしい, たい, 使って, 使う, にして, こと。, すること, べき, 希望, 優先, \
         で行, してね, しましょう, でいこう, でお願い",
    ),
    (
        Cues::CHANGE,
        "instead of, instead, no longer, not anymore, anymore, any more, changed to, changed from, change \
         it to, changed my mind, changes to, change of plan, change of plans, change the, switch to, switch from, switch \
         the, switched, switching, moved to, moving to, moves to, replaced, replaces, replacing, replace, supersede*, \
         scratch that, forget, on second thought, second thoughts, actually, correction, corrected, from now on, as of \
         now, revert*, roll back, rolled back, drop the, dropped, dropping, cancel*, updated to, update:, now, + not, bump*, renamed, rename, ignore the, \
         ignore what, overrul*, reconsider*, turns out, was wrong, is wrong, were wrong, obsolete, outdated, deprecated, \
         out of date, abandon*, discard*, we're not, we are not, not going, go with, going with, raised to, lowered to, \
         raise the, lower the, relax*, lifted, extended to, pushed to, postponed, superseded, stale, \
         withdrawn, undo, undone, disregard, in place of, not valid, void, migrated to, moved from, has moved, have \
         moved, got moved, was moved, became, becomes, take back, earlier i said, i said, previously, used to be, \
         no more, reversed, revised, revise, amend*, rotated, reassigned, swapped, swap, never mind, nevermind, no need, not needed, hold off, after all, new plan, turned out, \
         stop using, stopped using, retire*, retiring, sunset, i meant, i misspoke, my mistake, mistaken, mix-up, mixed up, typo, \
         update on, update from, news, latest, as of, effective, going forward, different, other than, overruled, pivot*, \
         pushed back, moved up, brought forward, settled on, ended up, make it, make that, let's do, final, final:, \
         代わりに, かわりに, 替わりに, ではなく, じゃなく, でなく, やめて, やめま, やめる, やめた, 止めて, 止めま, 取りやめ, \
         に変更, へ変更, 変更になり, 変更となり, 変更します, 変更して, 変更しま, 変更があ, 変わりま, 変わった, 変えて, 変えま, \
         変更, に切り替え, へ切り替え, 切り替え, 切替, 取り消, 撤回, 廃止, 今後は, これからは, 以降は, もう使, 不要にな, 訂正, \
         修正します。, やはり, やっぱり, 改めて, 見直, 置き換え, 差し替え, 移行しま, に移行, へ移行, 移動しま, に移動, に移しま, \
         に移り, 無効, 古い, 旧, 前言, やっぱ, 今度は, 新たに, 最新, 最終, 改め, 却下, 見送, 差し替え, にしよう, 言い間違, 勘違い, 更新, 切り替わ, 変わり, 移す, \
         移し, 直近, さっきの, 先ほどの, 以前の, 間違い, 誤り, 中止, 延期, 延び, 延長, 早まり, 前倒し, 繰り上げ, 引き上げ, 引き下げ, 増や, 減ら, 上げて, 下げて, \
         になりました, となりました, にします",
    ),
    (
        Cues::DECISION,
        "decid*, decision*, chose, chosen, choose, choosing, settled, settle on, agreed, we'll use, we will use, i'll \
         use, i will use, going with, go with, went with, went for, go for, going for, opted, opt for, let's use, let's go, let's keep, let's stick, \
         stick with, sticking with, adopt*, approach, the plan, plan for, plan:, our plan, conclusion, conclude*, verdict, picked, pick, \
         selected, approved, rejected, ruled out, trade-off, tradeoff, design:, we keep, will be stored, will live, is \
         the way, resolution:, resolved to, instead of, rather than, in favour of, in favor of, finali*, strategy, \
         we're using, we are using, final answer, standardi*, prefer*, \
         決定, 決め, 決まり, 採用, ことにし, ことにな, ことにす, 方針, 選択, 選定, 選び, 選ん, 結論, 合意, 却下, 見送, で行き, \
         でいき, 進めま, 代わりに, ではなく, 設計, 計画, 確定, とします, にします, とする, 承認, 判断",
    ),
    (
        Cues::MADE,
        "added, created, updated, removed, deleted, renamed, moved, implemented, refactored, wrote, rewrote, changed, \
         modified, replaced, introduced, extracted, split, merged, committed, pushed, deployed, installed, configured, \
         migrated, patched, applied, enabled, disabled, set up, wired up, ported, generated, registered, bumped, upgraded, \
         downgraded, published, released, opened, \
         追加しま, 作成しま, 更新しま, 削除しま, 実装しま, 修正しま, 変更しま, 移動しま, 導入しま, 設定しま, 書き換え, 置き換え, \
         リファクタ, 分割しま, 適用しま, 有効化, 無効化, デプロイしま, コミットしま, 反映しま, 登録しま, 公開しま, 対応しま",
    ),
    (
        Cues::DONE,
        "done, finished, completed, complete, fixed, resolved, closed, solved, passes now, pass now, now passes, now \
         pass, passing now, is gone, are gone, no longer fails, no longer fail, no longer occurs, no longer happens, no \
         longer reproduces, works now, now works, went away, all green, is green, merged, landed, shipped, [x], took \
         care of, taken care of, sorted out, has been rotated, starts cleanly, green after, is green, are green,  cleared, is in place, \
         が終わりま, は済み, 通って, 直って, 完了し, 完了です, 完了。, 完了：, 完了:, 済み, 済です, 終わりま, 終わった, 終了しま, 解決しま, 解決済, 解決でき, 解消しま, 解消され, 直りま, 直しま, 修正済, 対応済, 成功しま, 通りま, \
         通るよう, マージしま, クローズ, 実装しま, 修正しま, 対応しま, なくなりま",
    ),
    (
        Cues::OPEN,
        "todo, to do:, to-do, open:, next step*, next:, next up, remaining, remains, still need*, still have to, still to, \
         still open, still missing, not yet, later, follow-up, follow up, open question*, open item*, open point*, \
         unresolved, blocked, blocker*, pending, waiting for, waiting on, left to do, what's left, is left, are left, \
         afterwards, outstanding, unfinished, unclear, to be decided, tbd, needs review, need to check, need to verify, \
         need to confirm, must still, yet to, [ ], come back to, revisit, has to be done, awaiting, backlog, postponed, \
         残り, 残って, 残タスク, 未対応, 未実装, 未解決, 未完了, 未確認, 未着手, 未定, 次に, 次は, 次の作業, あとで, 後で, 後ほど, \
         保留, 要確認, 確認待ち, 待ち, まだ, 今後の, 残課題, 課題が残, 課題として, 宿題, やること, 必要があり, 検討中, ペンディング, タスク:, タスク：",
    ),
    (
        Cues::WRONG,
        "error, errors, fail, fails, failed, failing, failure, exception, panic*, crash*, fatal, broken, breaks, bug, \
         a regression, regressions, regressed, timed out, timeout error, refused, rejected with, denied, aborted, segfault, traceback, stack trace, \
         deadlock, corrupt*, leak, leaks, flaky, unexpected, not found, conflict, hangs, returned 4, returned 5, \
         exit code, status code, \
         エラー, 失敗, 例外, 落ち, クラッシュ, 不具合, バグ, 異常, 拒否, タイムアウトし, タイムアウトが, タイムアウトエラー, 見つかりません, 壊れ, 停止しま, 障害",
    ),
    (
        Cues::FOUND,
        "root cause, turns out, caused by, because, the cause, the reason, the problem is, the issue is, culprit, found \
         that, found the, found it, found a, discovered, noticed, confirmed, it seems, apparently, note:, note that, \
         keep in mind, for reference, fyi, by the way, summary:, result:, results:, conclusion:, learned, measured, the \
         value is, is set to, lives in, is in, is at, is on, located, listens on, points to, owned by, owner is, assigned \
         to, tracked in, tracked as, ticket, reference, recorded, contact, \
         原因, 判明, 分かりま, わかりま, 見つかりま, 発見, 確認しました, 確認できました, 理由, 結果, なお, 参考, ちなみに, まとめ, 担当, \
         番号, チケット, 記録, にあります, 問題は",
    ),
    (
        Cues::GOAL,
        "the goal, our goal, your goal, goal:, objective, the aim, your task, the task is, task:, we want to, i want you \
         to, i need you to, mission, the purpose, acceptance criteria, definition of done, \
         目的, 目標, ゴール, 今回の作業, やりたいこと, 依頼, タスクは, 達成",
    ),
    (
        Cues::CHAT,
        "thanks, thank you, thx, great, nice, cool, awesome, perfect, hello, hi, hey, good morning, good job, good work, \
         looks good, lgtm, sounds good, ^ok, ^okay, ^k, looks ok, hm+ ok, ^sure, got it, no problem, no hurry, no rush, no worries, you're welcome, cheers, take your time, how \
         is it going, how's it going, carry on, go ahead, keep going, go on, continue, well done, haha, lol, yes, yep, \
         interesting, makes sense, fair enough, my pleasure, happy to help, weekend, coffee, lunch, \
         ありがとう, お疲れ, おつかれ, こんにちは, おはよう, よろしく, いいね, いいですね, 了解, 承知, わかりました, OKです, \
         続けて, 進めて, 助かりま, さすが, なるほど, ^お願いします, よろしくお願い",
    ),
    (
        Cues::NARRATION,
        "^let me, ^i'll look, ^i'll check, ^i'll read, ^i'll run, ^i'll search, ^i'll start, ^i'll take a, ^i'll go, ^i'll see, \
         ^i'll try, ^i'll continue, ^i'll have a, ^i'll now, ^i'll first, ^i'll open, ^i'll begin, ^i'll get, ^i'll inspect, \
         ^i'll examine, ^i will look, ^i will check, ^i will now, ^i will start, ^now i, ^now let, ^now+ i, ^looking at, ^checking, ^reading, ^opening, ^next+ i, ^first+ \
         i, ^first+ let, ^ok+, ^okay+, ^alright, ^sure, ^going to, ^i'm going to, ^i am going to, ^running, ^one moment, \
         ^i can see, ^i see, ^here is, ^here's, ^let's look, ^let's see, ^let's check, ^time to, ^searching, ^i need to \
         look, ^on it, ^will do, ^working on it, ^nothing unusual, ^as expected, ^that looks, ^this looks, ^moving on, \
         見てみま, 見ていきま, 確認します, 調べます, 調べてみ, 読みます, 読んでみ, 開きます, 実行します, 検索します, 見ます, \
         進めます, 続けます, 始めます, 取りかかりま, 少々お待ち, チェックします, 探します",
    ),
    (
        Cues::PLAN,
        "i propose, i suggest, i intend, i'd start, i'd go, my plan, ^plan:, ^i'd, ^i'll, ^i will, ^we'll, ^we will, ^i'm going with, ^i would, ^we should, ^we can, ^i plan, ^we plan, 予定です, つもり, 用意します, 置きます, 持たせます, いきます, 行います",
    ),
    (
        Cues::MOVED,
        "renamed, rename, moved, move, moving, moves, relocated, deleted, removed, replaced by, superseded by, now lives, \
         移動, 改名, リネーム, 名前を変, 削除, 移しま, 移りま, 置き換え",
    ),
    (
        Cues::STILL,
        "still, not yet, remains, remain, isn't, not fixed, not resolved, not done, unfixed, reopen*, came back, again \
         fails, fails again, once, ^after, until, when, before, want, please, should, need, needs, \
         まだ, 再発, 残って, できていま, 未, たら, 後に, ください",
    ),
    (
        Cues::AGREED,
        "^understood, ^got it, ^noted, ^acknowledged, ^will do, ^sure, ^ok, ^okay, ^right, ^of course, ^certainly, ^agreed, \
         ^makes sense, ^thanks, ^good point, ^sounds good, ^absolutely, \
         ^了解, ^承知, ^わかりました, ^分かりました, ^かしこまり, ^はい, ^ありがとう",
    ),
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
            ("Let me look", Cues::NARRATION, true),
            ("Please let me look", Cues::NARRATION, false),
            ("Now, I look", Cues::NARRATION, true),
            ("- [ ] open", Cues::OPEN, true),
            ("", Cues::RULE, false),
        ] {
            assert_eq!(Cues::of(text).any(cues), there, "{text}");
        }
    }
}
