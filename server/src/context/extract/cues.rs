//! The words by which a sentence shows what it is: a rule, a decision, something open. One table for English and
//! Japanese, searched in one pass. Says nothing about what follows from them.

use std::ops::BitOr;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

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
    /// Something no longer holds at all.
    pub(super) const VOID: Self = Self(1 << 16);
    /// What somebody is going to do.
    pub(super) const PLAN: Self = Self(1 << 15);
    /// The assistant agrees to what it was told.
    pub(super) const AGREED: Self = Self(1 << 14);

    /// Something is not what it was. It says so of much that nobody needs to know, so it makes nothing important.
    pub(super) const SHIFT: Self = Self(1 << 19);
    /// Something is spoken of that was so before.
    pub(super) const FORMER: Self = Self(1 << 20);
    /// One thing is put in the place of another.
    pub(super) const SWAP: Self = Self(1 << 21);
    /// Something is not as it should be, or another one: a hint, if a value of the same sort is told with it.
    pub(super) const HINT: Self = Self(1 << 22);
    /// Something does not do what it was chosen for.
    pub(super) const DRAWBACK: Self = Self(1 << 23);
    /// Somebody is no longer there, or has handed over.
    pub(super) const LEFT: Self = Self(1 << 24);
    /// A value is not what it was: moved, extended, になった.
    pub(super) const REVISED: Self = Self(1 << 25);
    /// What says that something changed.
    pub(super) const CHANGED: Self = Self(Self::CHANGE.0 | Self::SHIFT.0);
    /// Somebody takes back what was said.
    pub(super) const TURN: Self = Self(1 << 17);
    /// Something is allowed, or allowed again.
    pub(super) const ALLOW: Self = Self(1 << 18);

    /// Any of these.
    pub(super) const fn all(cues: &[Self]) -> Self {
        let (mut all, mut at) = (0, 0);
        while at < cues.len() {
            all |= cues[at].0;
            at += 1;
        }
        Self(all)
    }

    /// The cues of a text.
    pub(super) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut found = Self::default();
        for hit in TABLE.automaton.find_overlapping_iter(text) {
            let entry = &TABLE.entries[hit.pattern().as_usize()];
            if is_whole(bytes, hit.start(), hit.end(), entry.open_end) && !(entry.at_start && hit.start() > 0)
            {
                found = found | entry.cues;
            }
        }
        found
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

/// Whether a hit is not a part of a longer word. Words are those of ASCII: other scripts need no borders.
fn is_whole(text: &[u8], start: usize, end: usize, open_end: bool) -> bool {
    let is_word = |at: usize| text.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let before = start > 0 && is_word(start) && is_word(start - 1);
    let behind = !open_end && is_word(end - 1) && is_word(end);
    !before && !behind
}

struct Table {
    automaton: AhoCorasick,
    entries: Vec<Entry>,
}

struct Entry {
    cues: Cues,
    /// The word may go on.
    open_end: bool,
    /// Only the beginning of a text shows it.
    at_start: bool,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut words = Vec::new();
    let mut entries = Vec::new();
    for (cues, list) in WORDS {
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let at_start = word.starts_with('^');
            let open_end = word.ends_with('*');
            words.push(word.trim_start_matches('^').trim_end_matches('*').replace('+', ","));
            entries.push(Entry { cues: *cues, open_end, at_start });
        }
    }
    let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(&words);
    #[expect(clippy::expect_used, reason = "the table is a constant, and a test builds it")]
    Table { automaton: automaton.expect("a table of a few hundred words"), entries }
});

/// By comma; `^`: only at the beginning, `*`: the word may go on, `+`: a comma.
const WORDS: &[(Cues, &str)] = &[
    (
        Cues::RULE,
        "must, mustn't, never, always, do not, don't, doesn't need, not allowed, forbidden, forbid*, prohibit*, under no \
         circumstances, required, requirement*, constraint*, mandatory, no matter what, at most, at least, no more than, \
         no less than, not exceed, no longer than, no later than, only use, only ever, may only, can only, off limits, \
         off-limits, hands off, without, avoid, make sure, ensure, important, critical, non-negotiable, \
         hard limit, hard requirement, whatever you do, untouched, unchanged, intact, as it is, as they are, stay as, stays as, deadline, keep in mind, remember, rule, policy, shall, stay under, stay below, \
         stay within, is fixed, cannot, can't, won't, shouldn't, should not, may not, read-only, has to, have to, needs \
         to, ^no, ^only, ^keep, limit*, nothing in, nobody, \
         必ず, 絶対, 禁止, してはいけ, してはなら, しないで, ないでください, しないこと, ないこと, 厳守, 必須, 以内, 以下に, \
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
        Cues::SHIFT,
        "from here on, these days, as of today, starting today, under the new, new terms, new \
         policy, rebuilt, taken over, takes over, took over, gone on leave, out of date, misread, sorry, wrong about, wrong place, to \
         answer your, off the table, go down to, go up to, goes from, went from, from then on, upgraded, is over, back up to, \
         raise, lower, ^not, has cut, have cut, was cut, were cut, cut to, cut down, cut from, went up, went down, dropped to, rises to, rose to, \
         grew to, shrank to, doubled, halved, tightened, loosened, shortened, slipped, slips to, trimmed to, capped at, just set, have set, i set, set it to, increase*, decrease*, reduce*, not what we, has gone, unmute*, unfreez*, resume*, fix to my, \
         取り下げ, 取下げ, 今は, 今日から, 本日から, 次回から, になって, となって, でした, だったよう, \
         実際には, 実際は, 正しくは, 作り直, 新しく, 続報, 撤去, 解除, 解禁, 再開, 緩和, 替わ, 代わって, 交代, 統一, 話し直, し直し, 終わったので, 済んだので, 改訂, 改定, にしておき, \
         移設, 引っ越, 異動, 乗り換え, 乗換, 一本化, 後ろ倒し, ずれま, ずれた, ずらし, 白紙, 撤廃, 変えましょう",
    ),
    (
        Cues::TURN,
        "actually, correction, scratch that, scratch the, forget what, forget the, forget about, was wrong, were wrong, \
         is wrong, wrong about, my mistake, my bad, mistaken, misread, misspoke, mixed up, mix-up, changed my mind, on second \
         thought, second thoughts, thinking about it, thinking again, come to think of it, thought it over, change of plan, change of plans, sorry, apologies, i meant, overrul*, revers*, revert*, turns \
         out, turned out, take that back, take it back, ignore what, ignore my, disregard, never mind, nevermind, out of date, \
         outdated, to answer your, answer to your, not what we thought, contrary to, fix to my, rather than, instead of, \
         withdrawn, supersede*, \
         やっぱり, やはり, やっぱ, 訂正, 撤回, 取り消, 取り下げ, 取下げ, 勘違い, 間違え, 間違い, 誤り, 言い間違, 読み違, 見間違, すみません, ごめん, 前言, 前に言, \
         さっきの, 先ほどの, 先の, 忘れてください, 忘れて, ではなく, じゃなく, でなく, 正しくは, 実際には, 実際は, 話し直, ご質問の件, メモを直",
    ),
    (
        Cues::FORMER,
        "the former, former one, formerly, the previous one, previous one, previous value, old one, old ones, earlier one, the prior, that idea, that plan, i proposed, i suggested, i gave, i told you, gave you, \
         told you earlier, told you before, said earlier, said before, mentioned earlier, mentioned before, what i said, what i told, \
         is history, out of the picture, \
         ^前の, 。前の, 、前の, 以前の, 元の案, 元の指定, 元の値, これまでの, 今までの, 従来の, 当初の, 先の, 先日の, 以前お, 前回の, の件, の話ですが",
    ),
    (
        Cues::HINT,
        "shorten*, struck, strike, shorter, smaller, fewer, stricter, tighter, sooner, too high, too low, too large, too small, too \
         slow, too long, too much, too many, the new, \
         すぎ, 過ぎ, 新しい",
    ),
    (
        Cues::SWAP,
        "replace, replaces, replaced by, replaced with, swap, swap it, swapped, switch to, switch it, switching to, switched to, instead, \
         in its place, move to, moving to, moved to, migrate to, migrating to, go with, \
         乗り換え, 乗換, 差し替え, 置き換え, 切り替え, 切替, 入れ替え, 代わりに, かわりに, に変更, へ変更, に移行, へ移行, 一本化",
    ),
    (
        Cues::DRAWBACK,
        "doesn't work, don't work, didn't work, does not work, do not work, not work out, won't work, would need, would take, would \
         run, would cost, would require, too, cannot, can't, fails, failed, breaks, broke, overrun*, runs \
         out, doesn't fit, does not fit, doesn't scale, does not scale, flaw, flawed, drawback*, unreliable, unstable, deadlock*, \
         riskier, slower, worse, after all, not enough, not an option, impossible, is not, isn't, aren't, wasn't, no longer, turned down, not approved, \
         間に合いません, 間に合わ, かかります, かかりました, すぎ, 過ぎ, 悪く, 悪い, 合わな, 合いません, できません, できない, 使えま, 使えない, 出ました, 増えま, \
         増えて, 止まり, 止まって, 足りな, 足りま, 不足し, 残ります, ではありません, ではなかった, 重い, 重く, 無理, 難し, 厳し, 却下, \
         通らな, 壊れ, 不安定",
    ),
    (
        Cues::LEFT,
        "on leave, on vacation, on holiday, on sabbatical, left the, has left, is leaving, leaves the, retires, retired, \
         resigned, quit, changed teams, moved teams, is away, is out, out of office, out sick, is sick, unavailable, not \
         available, not reachable, no longer here, no longer with, handed over, took over, takes over, taken over, \
         異動, 退職, 退社, 産休, 育休, 休職, 休暇, 転勤, 出張, 不在, 退任, 交代, 交替, 代わった, 代わりま, 替わった, 替わりま, 離任, 辞め, 引き継, 後任, 着任, 転職",
    ),
    (
        Cues::REVISED,
        "moved, moves to, slipped, slips, extended, postponed, pushed, delayed, brought forward, raised, lowered, increased, decreased, reduced, \
         shortened, changed, revised, updated, new date, new deadline, new limit, new definition, new target, new budget, recomputed, \
         recalculated, remeasured, re-measured, measured again, corrected, instead, now, these days, no longer, make \
         that, make it, really, replaces, \
         に変更, へ変更, 変更にな, 変更とな, 変更します, 変更して, 変わ, 変える, 変えて, 変えま, 替え, 延期, 延び, 延長, 短縮, 引き下げ, 引き上げ, 前倒し, 繰り上げ, 早ま, ずれ, 改ま, 改め, 訂正, になりました, になった, \
         となりました, となった, ことになり, 切り替え, 乗り換え, 今は, 今後は, でよい, でもよい, でOK, 再計算, 再計測, 測り直, 見直",
    ),
    (
        Cues::ALLOW,
        "lift the, lift all, is off, are off, you can, you may, can now, may now, you're free, free to, feel free, allowed, is ok, is okay, is fine, are fine, go ahead and, \
         lifted, unmute*, unfreez*, unblock*, unpause*, resume*, re-enable*, reenable*, is over, are over, no need, not needed, no \
         longer needed, no longer required, is back, cleared, without waiting, \
         解除, 解禁, 再開, 終わったので, 終わりました, 済んだので, 不要, してよい, していい, しても大丈夫, して構い, してかまい, 問題なくなり, 許可, 戻りました",
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
         migrated, patched, applied, enabled, disabled, set up, wired, ported, generated, registered, bumped, upgraded, \
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
        "todo, to do:, to-do, next step*, next:, next up, remaining, remains, still need*, still have to, still to, \
         still open, still missing, not yet, later, follow-up, follow up, open question*, open item*, open point*, \
         unresolved, blocked, blocker*, pending, waiting for, waiting on, left to do, what's left, is left, are left, \
         afterwards, outstanding, unfinished, unclear, to be decided, tbd, needs review, need to check, need to verify, \
         need to confirm, must still, yet to, [ ], come back to, revisit, has to be done, awaiting, backlog, postponed, \
         残り, 残って, 残タスク, 未対応, 未実装, 未解決, 未完了, 未確認, 未着手, 未定, 次に, 次は, 次の作業, あとで, 後で, 後ほど, \
         保留, 要確認, 確認待ち, 待ち, まだ, 今後の, 課題, 宿題, やること, 必要があり, 検討中, ペンディング, タスク:, タスク：",
    ),
    (
        Cues::WRONG,
        "error, errors, fail, fails, failed, failing, failure, exception, panic*, crash*, fatal, broken, breaks, bug, \
         regression, timed out, timeout error, refused, rejected with, denied, aborted, segfault, traceback, stack trace, \
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
        Cues::VOID,
        "withdraw*, take back, retract*, no longer, forget, never mind, nevermind, no need, hold off, scrap, drop the, dropped, cancel*, obsolete, outdated, scratch that, ignore, disregard, withdrawn, void, \
         not valid, abandon*, lifted, take back, undo, undone, revert*, anymore, any more, deprecated, not needed, \
         取り消, 取り下げ, 撤回, 廃止, 不要, 無効, 中止, やめ, 取りやめ, 忘れて",
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
