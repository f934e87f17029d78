//! The words by which a remark shows that something said before may no longer hold, and those by which a statement shows how
//! firm it is. Each is a sign, not more: what follows from them is weighed elsewhere.

use std::sync::LazyLock;

use super::lexicon::Lexicon;

/// What the words of a text are signs of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Signs(u32);

impl Signs {
    // Of a remark:
    /// Somebody corrects what was said.
    pub(super) const CORRECTED: Self = Self(1);
    /// Something is taken back or put away.
    pub(super) const VOID: Self = Self(1 << 1);
    /// Something is over.
    pub(super) const OVER: Self = Self(1 << 2);
    /// Something is allowed, or goes on as it did.
    pub(super) const RELEASED: Self = Self(1 << 3);
    /// One thing takes the place of another.
    pub(super) const SWAPPED: Self = Self(1 << 4);
    /// How it is from now on.
    pub(super) const NOW: Self = Self(1 << 5);
    /// A value goes up, down, or elsewhere in time.
    pub(super) const REVALUED: Self = Self(1 << 6);
    /// Something does not do.
    pub(super) const FAILED: Self = Self(1 << 7);
    /// What was before is spoken of.
    pub(super) const FORMER: Self = Self(1 << 8);
    /// Somebody has heard or found out something.
    pub(super) const NEWS: Self = Self(1 << 9);
    /// Something is not so.
    pub(super) const NEGATED: Self = Self(1 << 10);
    /// It begins by agreeing.
    pub(super) const AGREES: Self = Self(1 << 11);
    /// It begins by refusing.
    pub(super) const REFUSES: Self = Self(1 << 12);
    /// It is a question.
    pub(super) const ASKS: Self = Self(1 << 19);
    // Of a statement:
    /// It is only for some time.
    pub(super) const FOR_NOW: Self = Self(1 << 13);
    /// It is a proposal, a plan, a guess.
    pub(super) const TENTATIVE: Self = Self(1 << 14);
    /// It is a rule or a wish.
    pub(super) const RULE: Self = Self(1 << 15);
    /// It is a decision.
    pub(super) const DECIDED: Self = Self(1 << 16);
    /// It says how something is.
    pub(super) const STATED: Self = Self(1 << 17);
    /// It says what was done.
    pub(super) const DONE: Self = Self(1 << 18);

    /// Those of a remark that say by themselves that something changed.
    pub(super) const CHANGE: Self = Self(
        Self::CORRECTED.0
            | Self::VOID.0
            | Self::OVER.0
            | Self::RELEASED.0
            | Self::SWAPPED.0
            | Self::REVALUED.0
            | Self::FORMER.0,
    );

    pub(super) fn of(text: &str) -> Self {
        Self(TABLE.of(text))
    }

    /// Whether any of these is there.
    pub(super) fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Without how a text begins, for what stands in the middle of a message.
    pub(super) fn without_start(self) -> Self {
        self.without(Self::AGREES.with(Self::REFUSES))
    }
}

static TABLE: LazyLock<Lexicon> =
    LazyLock::new(|| Lexicon::new(WORDS.iter().map(|(signs, list)| (signs.0, *list))));

/// As [`Lexicon::new`] wants them.
const WORDS: &[(Signs, &str)] = &[
    (
        Signs::CORRECTED,
        "actually, correction*, scratch that, scratch the, scratch my, on second thought*, second thoughts, thinking about \
         it, thinking again, thought it over, come to think, change my mind, changed my mind, change our mind*, changed \
         our mind*, changed her mind, changed his mind, changed their mind*, turns out, turned out, my mistake, my bad, \
         mistaken, was wrong, were wrong, am wrong, is wrong, got it wrong, got that wrong, misread, misspoke, mixed up, \
         mix-up, oops, apologies, sorry, take that back, take it back, taking back, take back, on reflection, rethought, \
         rethink*, reconsider*, i meant, i should have said, not what i, overrul*, overturn*, revers*, contrary to, \
         訂正, やっぱ, やはり, 撤回, 勘違い, 間違, 誤り, 誤って, 気が変わ, 考え直, 見直, 前言, すみません, ごめん, 失礼し, 正しくは, \
         実は, 言い直, 読み違, 聞き違, 話し直, よく考え, 改めて",
    ),
    (
        Signs::VOID,
        "withdraw*, withdrew, retract*, revert*, undo, undone, roll back, rolled back, scrap, scraps, scrapped, scrapping, forget about, forget the, \
         forget what, forget that, forget it, forget my, ignore, disregard, never mind, nevermind, strike, struck, cancel*, \
         call off, called off, abandon*, discard*, drop, dropped, dropping, drops, ditch*, shelve*, shelving, obsolete, \
         outdated, out of date, void, invalid, not valid, supersede*, gone, is dead, are dead, off the table, retire*, \
         retiring, sunset, decommission*, shut down, switched off, switch off, turn off, turned off, deleted, remove, \
         removed, take it out, take that out, take them out, taken out, out of the picture, deprecated, \
         取り消, 取り下げ, 取下げ, 廃止, 中止, やめ, 止めま, 取りやめ, 無効, 忘れて, なかったこと, なしで, なしに, 無しで, はなし, 白紙, \
         却下, 見送, 破棄, 撤去, 撤廃, 外し, 外す, 消して, 終わり, 終了, ボツ, 解約, 停止",
    ),
    (
        Signs::OVER,
        "no longer, any longer, anymore, any more, no more, stop using, stopped using, used to, is over, are over, it's \
         over, hunt's over, is done, are done, is finished, finished, was finished, ended, ends, expired, has settled, is \
         history, is through, are through, past that, past the, \
         もう, なくなり, なくなった, 終わりま, 終わった, 済みま, 済んだ, しなくて, でなくて",
    ),
    (
        Signs::RELEASED,
        "again, lift, lifted, lifts, is off, are off, allowed, may now, can now, you can, you may, can be, may be, free to, \
         is free, are free, go ahead, resum*, re-enable*, reenable*, unfreez*, unblock*, no need, needn't, need not, don't \
         need, doesn't need, not needed, not required, unnecessary, not necessary, back in, is back, are back, is fine, \
         are fine, is okay, is ok, are welcome, everybody may, everyone may, everybody can, cleared, as usual, like \
         before, \
         解除, 解禁, 再開, 大丈夫, 構いません, かまいません, して構, てもいい, てよい, ていい, 問題な, 許可, 不要, 必要な, 必要はな, 戻して, \
         戻し, 戻り, 自由に, 公開し, 使ってもら, でよい, でいい, でOK, 結構です, また",
    ),
    (
        Signs::SWAPPED,
        "instead, in place of, in its place, replac*, swap*, switch*, move to, move it, move them, moved, moves to, moving \
         to, moved over, migrat*, rather than, in favour of, in favor of, different, differently, another, change, \
         changed, changes, changing, rename*, renaming, relocat*, reorganis*, reorganiz*, restructur*, merged, split, took \
         over, takes over, taken over, hand over, handed over, hands over, become*, became, go with, going with, went \
         with, rebuilt, redone, redo, rewritten, rotated, reassign*, pivot*, turn around, turn that around, \
         代わり, かわりに, 替わ, 変更, 変え, 変わ, 切り替え, 切替, 切り替わ, 差し替え, 差替, 置き換え, 乗り換え, 入れ替, 移行, 移動, 移し, 移り, \
         移す, 移設, 異動, 引っ越, ではなく, じゃなく, でなく, 別の, 引き継, 交代, 後任, 統一, 一本化, 改め, 改定, 改訂, 新た, 新しく, 新しい",
    ),
    (
        Signs::NOW,
        "now, from now on, from today, as of, from here on, going forward, these days, starting today, starting tomorrow, \
         starting monday, from monday, from tuesday, from wednesday, from thursday, from friday, effective, today, new, \
         newest, latest, update, updated, final, finally, after all, it is, let's make, make it, make that, settled, \
         今後, これから, 以降, 以後, 今は, 今日から, 本日から, 明日から, 次回から, 最新, 最終, 更新, にします, とします, になりま, となりま, になった, \
         となった, ことにし, ことにな, 決まり, 決定, にして, でお願い, 今度",
    ),
    (
        Signs::REVALUED,
        "raise, raised, raising, lower, lowered, lowering, increas*, decreas*, reduc*, extend*, shorten*, push, pushed, \
         postpon*, delay*, slip, slips, slipped, brought forward, bring forward, pulled forward, earlier, later, cut, \
         trim*, cap, capped, bump*, tighten*, loosen*, relax*, stricter, tighter, shorter, longer, smaller, larger, \
         bigger, fewer, more than, less, double, doubled, halve, halved, limit, further, up to, down to, reschedul*, \
         revis*, recalculat*, recomput*, remeasur*, re-measur*, recount*, amend*, adjust*, \
         延期, 延長, 延び, 延ば, 短縮, 引き上げ, 引き下げ, 上げ, 下げ, 増や, 増え, 減ら, 減り, 前倒し, 繰り上げ, 繰り下げ, 早ま, 早め, 遅ら, \
         ずれ, ずら, 厳しく, 緩和, 緩め, 絞, 広げ, 拡大, 縮小, 再計算, 再計測, 測り直, 計り直, 数え直, 倍に, 半分",
    ),
    (
        Signs::FAILED,
        "too, not enough, doesn't work, didn't work, don't work, won't work, not work*, can't, cannot, couldn't, fail*, \
         broke, broken, break, breaks, corrupt*, awful, terrible, slow*, worse, unreliable, unstable, flaw*, says no, say \
         no, said no, refus*, declin*, reject*, against it, not approved, turned down, denied, object, objected, veto*, is \
         full, ran out, crawl, a mess, collid*, conflict*, problem*, trouble, complain*, confus*, doesn't fit, not an \
         option, impossible, not going to, isn't going, aren't going, won't, would need, would take, would cost, left the, \
         on leave, unavailable, no capacity, is out, is ill, is away, is sick, \
         できません, できない, できなく, 間に合, すぎ, 過ぎ, 合わな, 使えな, 使えま, 断られ, 断り, 却下, 下りませ, 通らな, 通りませ, 崩れ, 壊れ, \
         不都合, 不具合, 微妙, だめ, ダメ, 駄目, 無理, 怒られ, 故障, 難し, 厳し, 重い, 重く, 遅い, 遅く, 足りな, 足りま, 不足, 問題が, 問題に, \
         問題あ, 反対, 退職, 異動, 不在, 休, 悪い, 悪く, 不安定, 困",
    ),
    (
        Signs::FORMER,
        "the old, that old, my old, our old, the former, the previous, my previous, our previous, the prior, the earlier, \
         my earlier, our earlier, the original, our original, my first, our first, the initial, that idea, that plan, that \
         rule, that offer, that one, that thing, that limit, that ban, the ban, that decision, that approach, that value, \
         that restriction, what i said, what i told, what i wrote, what i gave, what i proposed, what i suggested, what \
         i asked, i said, i told, i gave, i proposed, i suggested, i mentioned, i asked, i named, you were right, we said, \
         we had, we agreed, we planned, we wanted, we talked, we discussed, as planned, the one i, the one we, earlier, \
         before, yesterday, last week, last time, last month, remember, about the, regarding, as for, back to, \
         前の, 前回, 前に, 先日, 先ほど, さっき, 以前, 従来, 当初, 最初の, 元の, 旧, これまで, 今まで, その案, その件, その話, その設定, の件, の話, \
         の案, について, ですが, お伝えした, 言った, 言って",
    ),
    (
        Signs::NEWS,
        "news, heard back, heard from, got word, just got, just learned, just heard, just found, just saw, talked to, talked \
         with, spoke to, spoke with, fyi, heads up, heads-up, update on, update from, decided, decision, approved, says, say, said, told \
         me, wants, want, asked, after the, after some, checked, looked into, measured, tried, tested, \
         連絡, 指示, とのこと, そうです, ようです, 判明, 分かり, わかり, 決まり, 決めま, 結果, 確認し, 試し, 言われ, 聞い, 相談, 届き, 来ま, 出ました, \
         ました",
    ),
    (
        Signs::NEGATED,
        "not, no, don't, doesn't, didn't, isn't, aren't, wasn't, weren't, won't, shouldn't, mustn't, never, none, nothing, \
         without, neither, nobody, ない, ません, なく, ずに",
    ),
    (
        Signs::AGREES,
        "^ok, ^okay, ^yes, ^yep, ^sure, ^right, ^agreed, ^noted, ^understood, ^got it, ^will do, ^thanks, ^great, ^good, \
         ^fine, ^perfect, ^makes sense, ^of course, ^はい, ^了解, ^承知, ^わかりました, ^分かりました, ^かしこまり, ^ありがとう, ^いいですね",
    ),
    (
        Signs::REFUSES,
        "^no, ^nope, ^nah, ^hm, ^hmm, ^not, ^don't, ^please don't, ^rather, ^i'd rather, ^wait, ^stop, ^いや, ^いえ, ^うーん, ^ちょっと, \
         ^それは, ^だめ, ^待って",
    ),
    (
        Signs::FOR_NOW,
        "until, till, while, for now, for the moment, for the time being, during, as long as, temporar*, meanwhile, for the \
         first, this week, today, currently, at the moment, in the meantime, \
         間は, まで, 当面, ひとまず, とりあえず, 一旦, いったん, しばらく, 中は, 今のところ, 今は, 仮",
    ),
    (
        Signs::TENTATIVE,
        "let's, i'd, maybe, perhaps, probably, plan, propos*, suggest*, how about, i think, we'll, we will, going to, could, \
         would, should, idea, guess, roughly, about, expect*, estimate*, intend, \
         予定, つもり, 考えて, 想定, 案, いきま, いこう, ましょう, 思い, 見込, くらい, ぐらい, たぶん, おそらく, どうでしょう, 考えま, だろう",
    ),
    (
        Signs::RULE,
        "must, never, always, do not, don't, only, at most, at least, no more than, keep, please, need*, has to, have to, may \
         not, not, without, 必ず, 絶対, 禁止, ないで, こと, まで, のみ, だけ, 以内, 以下, してください, お願い",
    ),
    (
        Signs::DECIDED,
        "decid*, decision, go with, going with, we use, we'll use, use, take, settled, agreed, choose, chose, picked, \
         approach, 決定, 決め, 採用, ことにし, 方針, にします, とします, します, 使い, で行",
    ),
    (
        Signs::STATED,
        "is, are, live, lives, stored, sit, sits, found, run, runs, listens, located, at, on, です, あります, にある, 置いて, います",
    ),
    (
        Signs::DONE,
        "fixed, done, merged, added, created, updated, removed, changed, wrote, finished, passes, passed, deployed, しました, \
         完了, 済み, 追加し, 修正し, 作成し",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_found_in_both_languages() {
        for (text, sign, there) in [
            ("Scrap the Excel idea.", Signs::VOID, true),
            ("The scraper runs.", Signs::VOID, false),
            ("surveys can go out as usual again", Signs::RELEASED, true),
            ("No, ask somebody else.", Signs::REFUSES, true),
            ("There is no other.", Signs::REFUSES, false),
            ("Pause it until Friday.", Signs::FOR_NOW, true),
            ("その案はやめます。", Signs::VOID, true),
            ("監査が終わるまで消さない。", Signs::FOR_NOW, true),
        ] {
            assert_eq!(Signs::of(text).any(sign), there, "{text}");
        }
        assert!(!Signs::of("No, thanks").without_start().any(Signs::REFUSES));
    }
}
