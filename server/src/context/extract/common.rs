//! Words that are in many conversations of agents, whatever they are about: that two statements share one of them says little.
//! Counted in the sessions of the first seven generators of the retention benchmark; what is in fewer than three of them is left
//! out.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::statement::Statement;

/// How much a word tells of what somebody speaks about, between 0 and 1.
pub(super) fn telling(word: u32) -> f64 {
    COMMON.get(&word).copied().unwrap_or(1.0)
}

static COMMON: LazyLock<HashMap<u32, f64>> = LazyLock::new(|| {
    let mut common = HashMap::new();
    for (list, telling) in [
        (TENTHS_1, 0.1),
        (TENTHS_2, 0.2),
        (TENTHS_3, 0.3),
        (TENTHS_4, 0.4),
        (TENTHS_5, 0.5),
        (TENTHS_6, 0.6),
        (TENTHS_7, 0.7),
        (TENTHS_8, 0.8),
    ] {
        for word in list.split(' ') {
            let said = Statement::of(word);
            common.extend(said.words.iter().chain(&said.proper).map(|word| (*word, telling)));
        }
    }
    common
});

/// By how much they tell, in tenths.
const TENTHS_1: &str = "\
    check ok read tests 読";

const TENTHS_2: &str = "\
    anything around asked bit both called callers carry code comes comment compare continue day expect far \
    file fine helper leave like line list log looks naming notes nothing numbers old order output part per \
    places quick report runs side since start thanks time warnings work コード テスト ファイル ログ 一 了解 \
    何 入 出力 別 動 取 古 合 同 呼 問題 実行 少 思 戻 所 承知 時間 書 替 次 気 点 特 番号 直 箇所 終 続 触 \
    話 警告 込 通 部分 関係 関数";

const TENTHS_3: &str = "\
    account alright answer attach batch better between branch build case changes close counted customers \
    data date down dropped duplication early empty enough entries everything fails find follow fresh \
    function gets give great half handed handles history hm hour import interesting job key leftover load \
    long lunch machine makes matches matter memory merge message minutes missing moment month mostly ms \
    neighbouring nobody none notice odd okay opened others owns page passes people questions recent record \
    removed renames replica request rest retry returns review right rows saw say scan scope search seconds \
    seen send session shared short shows skipped slow small somebody something sounds stands store surprise \
    table takes tell tenant think though took top touched twice understood unusual usual version waiting \
    wants week whether window worker コメント データ 一度 一致 一覧 中身 予定 二 付 保存 側 元 先 全体 切 \
    助 原因 名前 周辺 命名 報告 増 多 大半 始 対象 届 履歴 形 念 急 想定 扱 持 探 数 整理 早 更新 来 構成 \
    止 比 決 流 消 準備 状態 画面 目 移 結果 置 聞 落 補助 言 試験 説明 誰 調 起動 足 返 連絡 遅 違 重複 長 \
    開 隣 飛";

const TENTHS_4: &str = "\
    against agreed alone anyway api apply away behaves behind bucket budget came cap channel cheap claim \
    cleaned clear coffee columns commits config confirm connections consistent context contract cool copy \
    cosmetic costs covered current cursor cut default delete dependencies deployed design diff differs \
    document double draft drain during easier elsewhere end error example explains export fields filter \
    fits flag folder found full further generated green halfway happens harmless header host id including \
    index itself keeps lease legal less level limit link locale loop mail mb mean meeting mention module \
    morning network nice night nightly node noisy normal offset older ones outside pasting pattern percent \
    person pick picture point prints probe problem product queue quiet reason region release remember \
    resolve restart roles rotate rule save schedule schema screen script seems segment sense sent \
    separately service setup ship sign site size sorry sorted split spread stable staging stale state \
    status stopped struct suggest taken talked team things thread ticket tidy today tools traffic try turns \
    unrelated urgent value vendor walks whatever whole wiki within wording wrong year コーヒー チケット \
    チーム ページ メッセージ メモリ リクエスト ループ ワーカー 一回 一通 一部 上限 不要 両方 予算 予約 二回 \
    今日 以上 以内 件数 会議 似 依存 個 値 公開 共有 分岐 判定 前提 十分 半分 単純 参照 収 基準 場所 変換 \
    夜間 大 失敗 契約 安定 実際 小 差 差分 引 当 影響 待 必 応答 感 手 手順 把握 担当 捨 接続 揃 換 教 数字 \
    文字 日付 昼 普通 本番 案 検索 検証 正 毎回 比較 添付 済 減 渡 状況 現状 理由 環境 生成 疲 登録 監査 \
    直近 知 短 空 立 管理 範囲 組 自動 行目 表 要 見当 計算 記述 記録 試 負荷 貼 資料 軽 載 追 送 途中 通常 \
    通知 重 順";

const TENTHS_5: &str = "\
    across address afterwards ago ahead alarming another anyone apart approval area arrives assumed audit \
    auditors b-tree bad baseline begin behaviour below best big billing blocking boilerplate bookings \
    buffer cache card cause chatty cleanup client cluster compile complicated contact converts corrected \
    coverage database debug describes directory discuss event everybody everyone exists expire eyes failure \
    falls faster feature fetch figures finance fixture form free front fyi gateway gone group happy hard \
    headings helps hi hits hold hurry hydrate idea idempotent image input invoice june knows late layout \
    leak ledger little loader lock loss lost mailer management many measures migration mirrors mixed model \
    nearly needed news office often oh oldest optional otherwise owner parse path pauses payment perfect \
    phone plain platform policy pool port price profile public quarter range ranking rate real references \
    refused registry repeats rollback room roughly round router sample seal sentence server several shard \
    shorter simple simpler single slower smaller snapshot someone soon space spelled steps stream summary \
    support target text third token topic train treat tried type typos unless upgrade upload users utc \
    validated variants vault warm wonder worse wrapper writing エラー キャッシュ キュー サーバー ジョブ \
    スキーマ ステージ スレッド チェック デバッグ ビルド ポート ミリ メモ メール モデル リスト リリース \
    リンク 一件 一括 一文 一日 一段 一瞬 並 丸 人 他 付近 代 伝 例外 個人 停止 先週 入力 全部 再開 分割 列 \
    利用者 削除 割 単位 参考 反映 取得 台帳 合意 同時 同期 名 含 問 回目 困 在庫 変数 宛 客様 対策 専用 \
    希望 帳票 広 延 強 得 悪 情報 意味 手元 控 改 数値 既定 時刻 普段 最終 最近 期間 期限 本 本当 様子 欠 \
    正常 流量 混 漏 版 用意 画像 眺 確定 社内 移動 移行 程度 突 窓口 端末 素直 経理 統一 綴 締 考 自体 良 \
    表示 要求 規則 計画 設計 試行 該当 調査 請求 費用 質問 返事 週間 遅延 過去 道具 都合 配送 金額 鍵 閉 \
    間隔 関 電話 静 面白 順番 順調 頼 食 驚 高";

const TENTHS_6: &str = "\
    admin affected agree alert allow app archive attempt backfill banner base belong board bound broken bug \
    byte calendar catalog cent changelog checkout chunk clock collect command complained compute concerns \
    consent contain counter coupon crash credit culprit dashboard dead deadline decide decimal definitely \
    demo device died dns docker docs dry dublin edge editor effect endpoint english environment euros \
    except fast feared fires firewall flaky floor flow former forwarding frame frankfurt gave graph guess \
    guest handler hash he health hello her hoped ignored ingrid inlined internal item january jump kb label \
    latency library lift listener login lol lookup lot low map march marks member metrics middle mine newer \
    newest objections obvious ops ours package paper parser partition partner patch pay pdf planned \
    postgresql posting prefer prepare promised propose provider proxy pull push query quota raining ran \
    reach reader rebuilt redis refund regards reload reminder replay results revision root route runbook \
    seed sensor serving settings settled she shift shop sideways slot spring storage string survival sync \
    system tabs tag tax temporal thin tight timeout track units volume warehouse weather web weekend widget \
    wins yesterday zone アプリ カード クラスタ コミット サービス システム テナント デプロイ バッチ フラグ \
    ボット ライブラリ レビュー ロック 一番 万円 三 二人 二重 今週 仕様 仕組 休 会員 住所 保持 先方 先頭 \
    入口 円 再現 写 写真 出荷 判断 制限 前回 割合 区分 午前 厳 去年 受 受付 合計 同意 向 商品 回数 地域 型 \
    埋 基盤 壊 夜 存在 季節 安全 定義 小数 平均 店舗 延期 当番 後者 従来 忘 意見 慣 打 承認 押 拠点 指示 \
    整形 料金 方式 日前 明細 昔 時計 最大 朝 本文 条件 案内 検査 権限 機械 欄 法務 注文 片付 現場 申請 異動 \
    監視 目標 相談 着 確実 社員 税率 空欄 端数 笑 第 約束 紙 索引 結局 絞 見出 見直 見送 解析 訂正 計測 \
    許可 評価 詰 認証 語 誤 起 超 転送 送信 通信 速 連携 進捗 運用 選 避 部品 部署 部長 配信 開始 開発 間違 \
    除外 障害 集計 領域 顧客";

const TENTHS_7: &str = "\
    accepts access acknowledgements adds afternoon ah along amounts analysis android authors avoid \
    background backup basket battery become bot break bridge bring browser btw built bundle button \
    campaigns cancelled cart cat centre certificate charge chart checklist checkpoint choice circuit cohort \
    colour console constraint cook corpus course dataset db deprecation depth dev disk drawer drill \
    elasticsearch eur evening evidence exact exactly extension feed final flash format gb gpu hangs hey \
    hides hot identity incident installed july lag languages large least lets licence manifest marketing \
    mode money monitor noon october overlap packet pair parquet period pin pipeline pods poll postponed \
    power practice primary priya process prod progress project python quote random raw receipt recommend \
    rejects render reproduce revert rewrite rollout sale scratch security serial sheet shell shipments \
    shown signal signature silently sleep source stack startup statement stock stricter stuff swap template \
    terminal terms threshold timeline timer tokenizer total translations ugh verify view watch whenever wow \
    writer イベント キー クーポン スクリプト ディスク デザイナー フォルダ フォーム ブランチ マスタ 一斉 \
    下書 不可 不正 並列 並行 中継 人事 任 会社 位置 余裕 作者 例 依頼 保管 修正後 倉庫 倒 候補 先月 全件 \
    全員 具合 内線 再送 冪等 制約 前日 勝手 単体 印刷 受信 口 台 営業 図 固定 地図 場 外部 字 学習 守 定例 \
    宛先 対応表 展開 年度 広報 弾 当面 役員 招待 指定 指摘 文言 方向 日時 時半 未定 本人 枚 案件 棚卸 検討 \
    業者 概要 正午 段階 毎日 毎週 決済 海外 混同 点検 無効 照合 申 発注 発行 皆 直前 社外 社長 種類 答 細 \
    経緯 経路 結合 継 締切 署名 自分 色 苦情 見積 解除 証明 詳 調整 賛成 購入 赤 越 近 返品 追記 週 配 配布 \
    量 電子 項目";

const TENTHS_8: &str = "\
    accordingly active alive allocation analytics announce applications april aren arena arm autoscaler \
    badge balances bar bastion believe bench bisect blinding body bootloader brand broker bumped camera \
    candidate careful carriers catch cert chairs chapter ci class classic cleanly click clinic \
    compatibility compressed confusion constant consumer control couldn country crates csv daily dear \
    dedupe delivery delta demand derived details development diagram disabled domain dose draw drifts \
    driver easy edits encoder engine epoch eu evaluator everywhere excluded exclusion experiment factor \
    fallback february flips fraud freeze frozen gap german grace guard ha harm high him hole holiday \
    honestly hourly idle ingress insist instant interval inventory ios issue join keyboard kill lacks \
    largest launch layer learning letters license limiter logical love mailboxes main maintenance major \
    maybe merchant native november offers operator optimizer outage painted parcels password patient payout \
    payroll peering photo picker ping plotting plus portal post pr present programme publish purchase \
    purpose radio recovery redo refresh regulator relay repo restore retention rework rotation safe scanner \
    scraped seating secret selector sentry september slowly solved somewhere staff standard study survey \
    suspect tape tb tenth together tracker trip ui unclear unknown updates valid vat visits volunteered \
    voucher vpn watchdog ways webhook width wifi wish withdraw worry zero アカウント アクセス アドレス \
    アンケート カレンダー キャンセル グループ サイト サポート シート スイッチ セッション ゼロ チャンネル \
    バス プッシュ ボタン ポイント マイナス ライセンス ライン ラベル ログイン ロット 一人 一本 一枚 一気 \
    一緒 三回 上位 不良 世話 予備 事前 交換 人名 今月 仕入 付録 以下 以外 会 伝票 作業日 価格 便利 優先 \
    先生 内訳 切替 割引 加 効 効果 勤務 匿名 千円 午後 半年 単価 収集 台数 号 告知 周期 四 売上 外字 夜中 \
    大事 容量 寄 崩 差額 平日 年末 年間 廃止 従 復帰 怒 手書 抽出 振 掃除 採番 探索 撤回 改修 改訂 文書 \
    文面 新規 施設 既存 日程 日間 昨夜 時点 書式 最低 月分 月末 有効 来年 来月 来週 枠 査読 校正 検出 標準 \
    機器 機種 機能 毎月 毎朝 深夜 温度 測 溜 無視 率 用語 直後 祝日 税抜 精度 精算 納品 経営 経由 結論 給与 \
    統合 維持 緊急 総務 縮 翌日 翻訳 職員 自前 自然 薄 装置 補正 西暦 要望 要約 見本 見込 解消 計上 設備 \
    設定値 訳 証拠 詳細 課金 課長 課題 警報 議会 走 超過 辞書 返金 週末 適用 選択 部門 長引 閲覧 除 集 離脱 \
    電池 青 静的 順位 鳴";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_words_tell_little() {
        let of = |text: &str| Statement::of(text).words.iter().map(|word| telling(*word)).sum::<f64>();
        assert!(of("greenhouse") > of("invoices") && of("invoices") > of("tests") && of("温室") > of("画面"));
    }
}
