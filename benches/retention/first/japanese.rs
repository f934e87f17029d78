//! What is said in the Japanese sessions.

use super::By::{Assistant, Tool, User};
use super::super::session::Kind;
use super::{Change, Language, Topic};

pub(crate) static JAPANESE: Language = Language {
    code: "ja",
    topics: &[
        Topic {
            name: "seikyu",
            system: "あなたは慎重なエンジニアです。シェルとファイル編集のツールを使えます。",
            goal: "こんにちは。請求まわりをMySQLからPostgreSQLへ移す作業をお願いします。まずスキーマ、その後に夜間バッチです。残りは順に伝えます。",
            components: &[
                "請求書テーブル", "督促バッチ", "税計算モジュール", "返金フロー", "仕訳の取り込み", "与信チェック", "消費税レポート", "価格表",
                "通貨サービス", "決済コールバック", "アーカイブジョブ", "明細メール",
            ],
        },
        Topic {
            name: "parser",
            system: "ライブラリの保守を手伝ってください。簡潔に答えてください。",
            goal: "このライブラリの設定ファイルのパーサーが遅く、エラーメッセージも不親切です。一回の走査で読み、エラー位置が分かるように書き直してください。",
            components: &[
                "字句解析器", "文字列テーブル", "エラー報告", "インクルード解決", "マージ処理", "検証器", "スキーマ読み込み", "数値リーダー",
                "コメント処理", "整形出力", "アリーナ", "公開イテレーター",
            ],
        },
        Topic {
            name: "kounyu",
            system: "あなたはフロントエンド開発者です。与えられたツールを使ってください。",
            goal: "スマートフォンで購入手続きの離脱が多いです。住所フォームがずれる原因を調べて、ページの読み込みを速くしてください。",
            components: &[
                "住所フォーム", "カートドロワー", "クーポン欄", "決済ウィジェット", "進捗バー", "注文サマリー", "ゲストログイン", "画像ローダー",
                "計測スクリプト", "固定フッター", "国選択", "同意バナー",
            ],
        },
        Topic {
            name: "shogai",
            system: "あなたは当番のSREです。ログとメトリクスを見て、設定を変更できます。",
            goal: "昨夜からアップロードサービスがリクエストを落としています。原因を突き止めて安定させ、経緯をまとめてください。",
            components: &[
                "アップロードゲートウェイ", "ウイルススキャナー", "サムネイルワーカー", "流量制限", "セッションプロキシ", "ブロブストア",
                "再送キュー", "ヘルスチェック", "ノードプール", "アラートルール", "サイドカー", "クォータサービス",
            ],
        },
        Topic {
            name: "data",
            system: "あなたはデータ基盤の担当者です。ビルドマシンのシェルを使えます。",
            goal: "クリックログを一日一回ではなく毎時で取り込みたいです。直近四半期の再取り込みも含めて、パイプラインを作り直してください。",
            components: &[
                "取り込み段", "重複排除", "時間別パーティション", "再取り込みランナー", "遅延イベントバッファ", "スキーマレジストリ", "品質ゲート",
                "出力バケット", "費用レポート", "ボット除外", "アカウント結合", "ウォーターマーク",
            ],
        },
        Topic {
            name: "ninsho",
            system: "あなたはセキュリティに詳しいバックエンド開発者です。",
            goal: "パスワードに加えてパスキーでのログインを追加してください。あわせてセッション管理も整理してください。",
            components: &[
                "セッションクッキー", "パスキー登録", "復旧メール", "トークン発行", "端末一覧", "ロックアウト回数", "監査証跡", "パスワードハッシュ",
                "管理コンソール", "招待リンク", "同意ページ", "鍵ローテーション",
            ],
        },
    ],
    constraints: &[
        ("{dir}は今週監査中なので、絶対に触らないでください。", "{dir}は今週監査中"),
        ("{component}の応答は必ず{n}ミリ秒以内にしてください。", "{component}の応答は必ず{n}ミリ秒以内"),
        ("お客様の環境に合わせて、{tool}はバージョン7までしか使えません。", "{tool}はバージョン7まで"),
        ("{component}に新しい依存ライブラリを増やすのは禁止です。", "{component}に新しい依存ライブラリを増やすのは禁止"),
        ("コミットメッセージの先頭には{ticket}のようにチケット番号を付けてください。", "{ticket}のようにチケット番号"),
        ("{day}までは新旧の{component}を並行稼働させたいです。", "{day}までは新旧の{component}を並行稼働"),
        ("{component}のログに顧客名を出してはいけません。", "{component}のログに顧客名を出してはいけません"),
        ("{host}は本番なので、何も実行しないこと。", "{host}は本番なので"),
        ("{component}のスレッド数は{n}を上限にしてください。", "{component}のスレッド数は{n}を上限"),
        ("{component}のコメントは日本語で書いてください。", "{component}のコメントは日本語"),
        ("{dir}の中を削除する前に、必ず私に確認してください。", "{dir}の中を削除する前に"),
        ("契約の都合で、{component}には{tool}を使う必要があります。", "{component}には{tool}を使う必要"),
        ("{component}の公開インターフェースはそのまま残してください。", "{component}の公開インターフェースはそのまま"),
        ("{component}のテストではネットワークを使わない方針です。", "{component}のテストではネットワークを使わない"),
        ("{component}に割り当てられるメモリは{n}MBが限度です。", "{component}に割り当てられるメモリは{n}MB"),
        ("{component}の変更をマージできるのは田中さんだけです。", "{component}の変更をマージできるのは田中さん"),
    ],
    decisions: &[
        ("両方を比べた結果、{component}には{tool}を採用します。", "{component}には{tool}を採用"),
        ("決定事項：{component}の金額は整数で保持します。", "{component}の金額は整数で保持"),
        ("{component}は同期のままにして、遅い部分だけキューに回すことにしました。", "{component}は同期のまま"),
        ("合意どおり、{component}には専用スキーマ{name}を用意します。", "専用スキーマ{name}"),
        ("{component}の保存形式は{tool}、一日一ファイルで進めます。", "{component}の保存形式は{tool}"),
        ("{component}に二つ目のクラスタが要るため、{tool}は見送りました。", "{tool}は見送り"),
        ("{component}は{n}回再試行して諦める設計にします。", "{component}は{n}回再試行"),
        ("{component}は両方に書き込み、一週間比較してから切り替える計画です。", "一週間比較してから切り替える計画"),
        ("{component}は日付ではなくテナントで分割する方針にしました。", "テナントで分割する方針"),
        ("{component}はフラグ{name}で切り替えられるようにします。", "フラグ{name}"),
        ("{component}は保存せず、読み出し時に計算する形に決めました。", "{component}は保存せず"),
    ],
    user_facts: &[
        (Kind::Id, "{component}のチケットは{ticket}です。", "{ticket}"),
        (Kind::Id, "ステージングは{url}で動いています。", "{url}"),
        (Kind::Path, "{component}のコードは{path}にあります。", "{path}"),
        (Kind::Id, "{component}を試すときはテストアカウント{id}を使ってください。", "{id}"),
        (Kind::Error, "{component}で{code}が出るとお客様から連絡がありました。", "{code}"),
        (Kind::Path, "{path}を見てください。{component}はそこから始まるはずです。", "{path}"),
        (Kind::Id, "{component}のベンダーとの契約番号は{hash}です。", "{hash}"),
        (Kind::Error, "今朝{component}で{ecode}が二回報告されました。", "{ecode}"),
    ],
    facts: &[
        (Kind::Id, "{component}のジョブは{id}として動いています。", "{id}"),
        (Kind::Path, "{component}は{path}で組み立てられています。", "{path}"),
        (Kind::Path, "原因が分かりました。{path}が二つ目の接続を開いています。", "{path}"),
        (Kind::Error, "{component}はワーカーが二つになると{code}で落ちます。", "{code}"),
        (Kind::Id, "{component}の残件は{ticket}として起票しました。", "{ticket}"),
        (Kind::Id, "{component}の基準値は毎秒{n}リクエストです。", "毎秒{n}リクエスト"),
        (Kind::Path, "新しいテストは{path}に置きました。", "{path}"),
        (Kind::Id, "{host}にリビジョン{hash}をデプロイしました。", "{hash}"),
        (Kind::Error, "残っている失敗は{ecode}で、{component}がストリームを早く閉じすぎています。", "{ecode}"),
        (Kind::Path, "{component}の設定は起動時に{path}から読まれます。", "{path}"),
        (Kind::Id, "ダッシュボードは{url}です。", "{url}"),
        (Kind::Decision, "残タスク：{component}の負荷試験。", "{component}の負荷試験"),
        (Kind::Decision, "未解決：{component}の鍵を誰が更新するか。", "{component}の鍵を誰が更新するか"),
    ],
    errors: &[
        ("10:14:02.118 ERROR worker: {code}: lease expired while flushing", "{code}"),
        ("error[{ecode}]: cannot borrow the buffer twice", "{ecode}"),
        ("エラー: {component}のセグメントを開けません（コード {code}）", "{code}"),
        ("E   AssertionError: {code} expected, got nothing", "{code}"),
        ("npm ERR! code {ecode}", "{ecode}"),
        ("panic: {ecode} in worker, goroutine 17", "{ecode}"),
        ("HTTP 502 from {host}: upstream reset ({code})", "{code}"),
        ("接続に失敗しました: {component} {code}", "{code}"),
    ],
    changes: &[
        Change {
            kind: Kind::Id,
            old: (User, "{component}のポートは{port}番でお願いします。", "ポートは{port}番"),
            new: (User, "やはり{component}のポートは{port2}番に変更してください。", "ポートは{port2}番"),
        },
        Change {
            kind: Kind::Constraint,
            old: (User, "{component}には{tool}を使ってください。", "{component}には{tool}を使って"),
            new: (User, "{component}の件ですが、{tool}はやめて{tool2}にしましょう。", "{tool2}にしましょう"),
        },
        Change {
            kind: Kind::Constraint,
            old: (User, "{component}の締め切りは{day}です。", "締め切りは{day}"),
            new: (User, "{component}の締め切りは{day2}に延びました。", "締め切りは{day2}"),
        },
        Change {
            kind: Kind::Decision,
            old: (Assistant, "{component}の状態は{tool}に持たせます。", "{component}の状態は{tool}"),
            new: (Assistant, "{tool}では遅すぎたので、{component}の状態は代わりに{tool2}へ置きます。", "代わりに{tool2}"),
        },
        Change {
            kind: Kind::Decision,
            old: (Assistant, "残り：{component}のロールバック手順の作成。", "残り：{component}のロールバック手順"),
            new: (Assistant, "{component}のロールバック手順は完了し、{path}に置きました。", "{path}"),
        },
        Change {
            kind: Kind::Id,
            old: (User, "{component}のタイムアウトは{n}秒です。", "タイムアウトは{n}秒"),
            new: (User, "{component}のタイムアウトは{n2}秒になりました。", "タイムアウトは{n2}秒"),
        },
        Change {
            kind: Kind::Path,
            old: (User, "{component}の設定は{path}にあります。", "{path}"),
            new: (User, "{component}の設定は移動しました。今後は{path2}を見てください。", "{path2}"),
        },
        Change {
            kind: Kind::Id,
            old: (Tool, "{setting}={n}", "{setting}={n}"),
            new: (Tool, "{setting}={n2}", "{setting}={n2}"),
        },
        Change {
            kind: Kind::Decision,
            old: (Assistant, "{component}は{tool}を既定にして出荷すると決めました。", "{tool}を既定にして出荷"),
            new: (User, "{component}は{tool}ではなく{tool2}を既定にしてください。", "{tool2}を既定"),
        },
    ],
    chat: &[
        "ありがとうございます、続けてください。", "いいですね。", "早いですね、助かります。", "調子はどうですか？", "了解です。",
        "昼から戻りました。続けてください。", "お疲れさまです。", "なるほど。", "終わったら教えてください。", "おはようございます。", "急ぎません。",
    ],
    replies: &[
        "承知しました。", "はい、進めます。", "ありがとうございます。続けます。", "了解しました、作業を続けます。", "分かりました。呼び出し側を確認します。",
    ],
    remarks: &[
        "この関数はリストを二度走査していますが、この規模なら問題ありません。", "命名は改善の余地がありますが、見た目の話です。",
        "この部分はすでにテストされています。", "特に変わった点はありません。", "ループは読みやすいです。", "別のモジュールと同じ作りです。",
        "構成はおおむね想像どおりです。", "コメントが少し古いようです。", "補助関数は数か所で使われています。", "素直なコードです。",
        "二つの分岐に少し重複があります。", "ログは通常どおりの流量です。", "以前見たものと一致します。",
    ],
    narration: &[
        "そのファイルを見てみます。", "まず呼び出し側を確認します。", "テストを実行します。", "ほかの使用箇所を検索します。", "隣のモジュールを読みます。",
        "ログを確認します。",
    ],
};
