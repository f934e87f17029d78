//! Owns the scripts of Japanese sessions, first half: a member database, a nightly batch, a payment page, document
//! search, a factory gateway, payroll. How they are read: [`super::play`].

/// The scripts.
pub(super) const SCRIPTS: &[&str] = &[MEMBERS, BATCH, PAYPAGE, DOCSEARCH, FACTORY, PAYROLL];

const MEMBERS: &str = r#"
work: members
words: 会員情報 ポイント 登録画面 住所変更 購入履歴 会員ランク 退会手続き 利用規約 誕生月特典 問い合わせ窓口
speaks: ja
style: polite
lang: go
nouns: member profile point coupon session address history campaign grade audit
dirs: internal/member internal/point migrations cmd/migrator tests
services: member-api point-worker mail-sender auth-proxy
kinds: code log sql json test page diff grep git sql
system: あなたは開発を支援するエージェントです。リポジトリ、シェル、検証用データベースを利用できます。
U お世話になっております。会員データベースの移行をお願いしたいと思います。前提として、⟦C 会員番号の体系は変更不可⟧です。また、‹⟦C 本番への書き込みは一切行わないでください⟧。¦⟦C 本番環境には書き込まないよう⟧お願いいたします。›
T sql ~ まず件数を確認します。 ⇒ -- 退会済みで個人情報が残る行: ⟦I 1«rw=####»件⟧
A 退会済みにもかかわらず個人情報が残っている行が1«rw»件あります。移行の対象に含めますか?
+U いえ、法務の指示で‹⟦D 退会者の個人情報は移行前に消去⟧することになっています。¦⟦D 退会者分は匿名化してから移行⟧と決まっております。›
A 会員情報の書き込みは⟦P internal/member/«mf=store,writer,repository».go⟧に集約されていますので、ここを起点に切り替えます。
U 検証用の接続先ですが、‹⟦I-1 «h1=stg-member-db,verify-db»0«hn=2..8»⟧をお使いください。¦⟦I-1 «h1=stg-member-db,verify-db»0«hn=2..8»⟧にご用意しました。›管理番号は⟦I «tk=MBR-####»⟧です。
T log ⇒ ERROR [point-worker] ⟦E PT-«pe=###»: 残高がマイナスです⟧ member=«mm=######»
A PT-«pe»は、失効処理と付与処理が同時に走った場合に発生しています。‹⟦D ポイント更新は会員単位で直列化⟧します。¦対策として⟦D 会員ごとにロックを取る⟧方式にします。›
A 移行方式ですが、‹⟦D-2 週末に全件を一括で移す⟧案で進めたいと思います。¦検討の結果、⟦D-2 一括移行を週末に実施⟧する方針とします。›
?U ‹⟦C 画面の停止は30分以内⟧に収めていただけますでしょうか。¦なお、⟦C サービス停止は最長30分⟧でお願いします。›
T trace ⇒ ⟦E pq: invalid byte sequence for encoding "UTF8": 0x«bx=8#»⟧
A 旧データに外字が混じっており、変換で失敗します。変換表を⟦P internal/member/«gj=gaiji,kanji_map,charfix».go⟧に追加しました。
U 移行の期日についてご連絡です。‹⟦C-3 切替は9月«d1=3..9»日⟧で経営会議の承認を得ました。¦⟦C-3 9月«d1=3..9»日に切り替え⟧という予定で承認されています。›
T test ⇒ --- FAIL: ⟦E TestGradeCarryOver⟧ (0.31s)\n    期待値 gold、実際 silver
A 会員ランクの引き継ぎで端数の扱いが異なっていました。どちらに合わせるべきでしょうか。
+U 旧システムに合わせてください。‹⟦C ランク判定は税抜金額で行う⟧のが規約です。¦規約上、⟦C 税抜金額でランクを決める⟧ことになっています。›
A 計測したところ一括では«hr=14..22»時間かかります。先の案は取り下げ、‹⟦D=2 差分同期で少しずつ移す⟧方式に改めます。¦⟦D=2 差分同期方式に切り替え⟧ます。›
U 申し訳ありません、検証用サーバーが更改されました。‹今後の接続先は⟦I=1 «h2=newmember-rds,kaiin-aurora»-«hx=##»⟧です。¦以前お伝えしたホストは廃止です。⟦I=1 «h2=newmember-rds,kaiin-aurora»-«hx=##»⟧へお願いします。›
T json ⇒   {"queue": "⟦I sync-«sq=%%%%»⟧", "滞留": 48211, "備考": "重複キーで停止"},
A 同期キューsync-«sq»が重複キーで止まっていました。‹⟦D 重複時は更新日時の新しい方を採用⟧します。¦⟦D 新しい更新日時を優先⟧する規則にしました。›
?A 手順書を⟦P docs/移行手順_«dc=確定版,改訂版,第二版».md⟧にまとめました。
U メールの件ですが、‹⟦C 会員への通知は広報の確認後⟧に限ります。¦⟦C 広報の確認なしに会員へ送信しない⟧でください。›担当は«pr=大西,三浦,早川»です。
T log ⇒ WARN  [auth-proxy] ⟦E token signature mismatch kid=«kd=%%%%»⟧
A 認証側の鍵がkid=«kd»のまま更新されていませんでした。設定は⟦P deploy/«ac=auth-keys,jwks,signing».yaml⟧です。
U 期日が変更になりました。‹棚卸しと重なるため、⟦C=3 10月«d2=14..27»日に実施⟧いたします。¦⟦C=3 新しい切替日は10月«d2=14..27»日⟧となります。›
A 承知しました。監視については‹⟦D 同期遅延が«dl=3..8»分を超えたら通知⟧とします。¦⟦D 遅延«dl=3..8»分で警報⟧を出すようにしました。›
T sql ⇒ -- 照合結果: ⟦I 不一致 «um=2#»件⟧ (すべて海外住所)
A 残る不一致«um»件は海外住所のみです。‹⟦D 海外住所は手作業で補正⟧します。¦こちらは⟦D 手作業で直す⟧のが確実です。›
U ありがとうございます。万一の際は‹⟦D 旧DBへの切り戻しは«nm=2..6»時間以内に判断⟧でお願いします。¦⟦D «nm=2..6»時間以内に切り戻しを判断⟧する決まりです。›
?U 旧データベースは‹⟦C 半年間は削除しない⟧でください。¦⟦C 旧DBを6か月保管⟧する必要があります。›
T ls ⇒ -rw-r--r-- 1 ops ops 88213 Nov 2 ⟦P backup/member-«bk=%%%%».dump⟧
A 直前のバックアップを確認しました。復元試験も済んでいます。
"#;

const BATCH: &str = r#"
work: batch
words: 発注データ 伝票 在庫表 店舗マスタ 納品予定 仕入先 集計表 棚卸し 返品処理 締め処理
speaks: ja
style: plain
lang: java
nouns: order slip stock store price supplier calendar summary transfer lock
dirs: batch/src jobs/conf sql/summary shell lib
services: nightly-batch stock-sync price-loader job-manager
kinds: log log code sql trace json table yaml grep log
system: あなたは運用担当を補助するエージェントです。ログの参照とジョブの実行ができます。
U 夜間バッチが昨夜も途中で落ちた。障害番号は⟦I «no=障害-####»⟧。⟦C 店舗の開店は7時なので6時半までに在庫を確定させる⟧こと。
T log ⇒ ERROR [nightly-batch] ⟦E JB«jb=###»E 入力ファイルの件数不一致⟧ 期待=120334 実際=«ac=98###»
A JB«jb»Eで停止しています。仕入先から届いたファイルが途中で切れています。
+U 再送は頼んだ。‹その間、⟦C 価格マスタには触らないこと⟧。¦ただし⟦C 価格マスタは変更禁止⟧だ。›
A 処理の入口は⟦P batch/src/«bf=StockImport,OrderIntake,SlipReader».java⟧でした。件数の検査はここで行われています。
A 原因は‹⟦D-1 仕入先の送信途中の切断が原因⟧と見ています。¦現時点では⟦D-1 通信の切断⟧と考えています。›
T table ⇒ root     41022  0.0  0.1 job-manager --queue=⟦I Q«qu=##»-NIGHT⟧ --hold
A ジョブキューQ«qu»-NIGHTが保留のままです。解除してよいですか。
+U まだだめだ。‹⟦C 保留の解除は経理の連絡を待つ⟧。¦⟦C 経理から連絡があるまで解除しない⟧でくれ。›
U 再実行は‹⟦C-2 再実行は«t1=1..2»時から⟧で頼む。¦⟦C-2 «t1=1..2»時に再実行⟧する。›
T trace ⇒ ⟦E java.sql.SQLException: ORA-01555 snapshot too old⟧\n    at jp.example.batch.Summary.run(Summary.java:210)
A ORA-01555は集計が長すぎるためです。‹⟦D 集計は店舗グループごとに分割⟧して流します。¦⟦D 店舗グループ単位で集計する⟧よう直します。›
T code@shell/receive.sh ⇒     // 受信直後に改名するため、書き込み中でも取り込まれる\n
A 原因の見立てを改めます。切断ではなく、‹⟦D=1 受信途中のファイルを改名してしまう順序の誤り⟧でした。¦⟦D=1 改名の順序が真因⟧です。›該当は⟦P shell/«sh=receive,fetch_in,uketori».sh⟧です。
+U なるほど。それなら‹⟦D 完了ファイルを見てから取り込む⟧方式にしよう。¦⟦D 完了通知ファイルを待って取り込む⟧形に直してくれ。›
?U ‹⟦C 休日カレンダーは手で直さない⟧こと。本部が配る。¦カレンダーは本部が配るので⟦C カレンダーの手修正は禁止⟧。›
T json ⇒   {"店舗": "⟦I 店番«st=####»⟧", "状態": "停止", "備考": "棚卸し中のため除外"},
A 店番«st»は棚卸し中のため今夜は除外します。
U ‹時間を変える。⟦C=2 4時開始⟧にしてくれ。バックアップと重なる。¦バックアップと重なるので⟦C=2 開始を4時に変更⟧する。›
T log ⇒ WARN  [price-loader] ⟦E 消費税区分コード«tx=#»Zは未定義⟧ 商品=«sh2=######»
A 未定義の税区分«tx»Zは新商品の登録漏れでした。‹⟦D 未定義の税区分は取り込まず翌日に回す⟧。¦⟦D 税区分が未定義なら翌日送り⟧とします。›
?U 現場から届いた記録も貼っておく。\n⟪log⟫
U 連絡先は‹⟦C-3 夜間の連絡は古賀さん⟧に。¦⟦C-3 夜間は古賀さんへ連絡⟧してくれ。›
?A 分割後の集計SQLは⟦P sql/summary/«sq=by_group,grouped,bunkatsu».sql⟧に置きました。
T test ⇒ SummaryTest > ⟦E 月またぎの返品() FAILED⟧\n    expected 0 but was -3
A 月をまたぐ返品でマイナスになります。‹⟦D 返品は元の売上月に計上⟧でよいですか。¦⟦D 元の売上の月で返品を計上⟧する形にしました。›
+U よい。監査にもそう説明してある。
U ‹古賀さんは異動した。⟦C=3 夜の窓口は真鍋さん⟧だ。¦異動があった。⟦C=3 今後は真鍋さんに電話⟧。›
?1A 並列数は‹⟦D-4 並列数を8にする⟧つもりです。¦⟦D-4 8並列で流す⟧予定です。›
T log ⇒ ERROR [stock-sync] ⟦E デッドロック検出 table=T_ZAIKO⟧ 犠牲=session «ss=###»
?1A 8ではデッドロックが出ました。‹⟦D=4 3並列に抑えます⟧。¦⟦D=4 並列は3まで⟧とします。›
U 実行ユーザーは⟦I batch«us=##»⟧。‹⟦C rootで流さない⟧こと。¦⟦C rootでの実行は不可⟧。›
T sql ⇒ -- 再実行後の在庫差異: ⟦I 差異«df=1#»件⟧
A 再実行の結果、差異«df»件でした。‹いずれも店頭取り置き分です。¦取り置き分だけです。›一覧は⟦P /var/batch/out/«ol=sai,zaiko_diff,check».csv⟧。
U ‹⟦D 差異は朝礼で各店に伝える⟧。システムでは直さない。¦⟦D 差異の補正は各店で行う⟧。システム側は触らない。›
T yaml@jobs/conf/nightly.yaml ⇒ # 監視用\nalert_code: ⟦I AL-«alc=####»⟧
A 監視コードAL-«alc»を新しい順序に合わせて登録しました。‹⟦D 6時を過ぎたら自動で電話連絡⟧になります。¦⟦D 6時超過で自動架電⟧します。›
?U 報告書は⟦P 報告/«rep=障害報告,経緯報告,原因報告»_確定.docx⟧に頼む。
"#;

const PAYPAGE: &str = r#"
work: paypage
words: カート 支払方法 配送先 ギフト包装 領収書 入力欄 お知らせ帯 会員割引 注文確認 送料
speaks: ja
style: chat
lang: ts
nouns: cart payment card coupon shipping gift receipt modal banner form
dirs: src/pages src/features/pay src/ui e2e locales/ja
services: shop-web pay-bff cart-api cdn-edge
kinds: code test build json diff log page grep code git
system: あなたはフロントエンドの実装を担当するエージェントです。
U やっほー。決済画面のリニューアル、今日から一緒にやろ!最初に言っとくと⟦C カード番号はうちのサーバーを通さない⟧、これ絶対ね。デザインは⟦I Figmaの«fg=@#@##»⟧見て
T build ⇒ dist/pay.«bh=%%%%%».js ⟦I «bs=7..9»«b2=10..90» kB⟧ (gzip 241 kB)
A 決済画面のファイルが«bs»«b2» kBあります。大半が絵文字入力の部品でした。‹⟦D 絵文字部品は遅延読み込み⟧にします。¦⟦D 絵文字入力は後から読み込む⟧ようにしますね。›
+U え、そんなの入ってたの笑 おねがい
A 入力チェックには‹⟦D-1 yupを使う⟧予定です。¦⟦D-1 検証はyup⟧でいきます。›
T code@src/features/pay/token.ts ⇒ // トークン取得後も元の値を保持している\n
A ⟦P src/features/pay/«tf=token,cardToken,vaultClient».ts⟧で、トークン取得後もカード番号を変数に持ち続けていました。すぐ消すよう直します。
U こわ。あと‹⟦C コンビニ払いは30万円まで⟧だから上限よろしく¦コンビニ払いね、⟦C 上限30万円⟧で›
T test ⇒  ❯ src/features/pay/gift.test.ts\n   ⟦E ギフト券と割引の併用で合計が負⟧
A ギフト券と割引を併用すると合計がマイナスになります。どう扱いましょう?
+U あー‹⟦D 合計は0円で止めて残額はギフト券に戻す⟧で¦0円で止めよ。⟦D 余りはギフト券へ戻す⟧感じで›
U ‹ローカルのBFFは⟦I-2 ポート«p1=30##»⟧で立ててる¦pay-bffは手元だと⟦I-2 «p1=30##»番ポート⟧だよ›
T log ⇒ ERROR [pay-bff] ⟦E 3DS_«ds=###» challenge window closed⟧ order=«od=#####»
A 3DS_«ds»は本人認証の小窓を閉じたときに出ます。‹⟦D 認証を閉じたら支払方法の選択へ戻す⟧。¦その場合⟦D 支払方法の画面に戻す⟧ことにします。›
?U ‹⟦C 文字サイズは16px未満にしない⟧でね、iPhoneで拡大されちゃう¦iPhoneで勝手に拡大されるから⟦C 入力欄は16px以上⟧で!›
A yupは型との相性が悪く、二重定義になりました。‹⟦D=1 zodに乗り換えます⟧。¦なので⟦D=1 検証はzodに変更⟧です。›
T json ⇒   {"flag": "⟦I pay_renewal_«fl=##»⟧", "rollout": 0, "owner": "shop"},
A フラグpay_renewal_«fl»の裏に全部入れておきます。
U いいね!公開は‹⟦C-3 «d1=3..9»日の火曜に公開⟧らしい¦⟦C-3 公開日は«d1=3..9»日⟧って言われた›
T trace ⇒ ⟦E Error: Minified React error #«re=4##»⟧\n    at ReceiptModal
A 領収書の表示で落ちる件、サーバー側と日付の書式が違うためでした。修正は⟦P src/ui/«rc=Receipt,ReceiptDate,Ryoshusho».tsx⟧です。
U ごめんdockerいじったら変わった!‹⟦I=2 今は«p2=58##»⟧につないで¦⟦I=2 «p2=58##»が新しい方⟧ね›
U ‹⟦C 領収書の宛名は後から変更できない⟧仕様で。税理士さんが言ってた¦税理士さん曰く⟦C 領収書の宛名変更は不可⟧›
T grep ⇒ locales/ja/pay.json:31:  "cta": "⟦I 要確認«yk=##»⟧",
A 文言が未確定の箇所は「要確認«yk»」で検索できます。‹⟦C 文言は«ed=栗田,沢井,水野»さんの確認後に確定⟧という理解です。¦⟦C 文言の最終確認は«ed=栗田,沢井,水野»さん⟧ですね。›
T test ⇒  ❯ e2e/konbini.spec.ts\n   ⟦E locator('#konbini-code') が見つかりません⟧
A e2eの失敗は検証環境だけ要素名が違うためです。⟦P e2e/«ee=konbini,store_pay,cvs».spec.ts⟧側で吸収しました。
?1U 分割払いは‹⟦C-4 分割は12回まで⟧¦⟦C-4 12回払いまで対応⟧で›
U 公開日ずれたー。‹⟦C=3 «d2=17..25»日の木曜になった⟧¦⟦C=3 «d2=17..25»日に延期⟧だって›
?A 表示速度は6.1秒から⟦I «lc=2.#»秒⟧まで縮みました。
?1U カード会社と話した結果‹⟦C=4 最大24回⟧になりました〜¦⟦C=4 24回までOK⟧だって!›
T diff ⇒ -  retry: 3,\n+  retry: 0, // ⟦E 二重決済の恐れ⟧
A 決済の再試行は外しました。‹⟦D 決済APIは自動で再試行しない⟧。¦⟦D 決済の自動リトライなし⟧が安全です。›
U ‹⟦D 旧画面は/pay-oldに1か月残す⟧で!¦保険で⟦D 旧画面を/pay-oldに残そ⟧›
T log ⇒ WARN  [cdn-edge] ⟦E Cache-Control欠落 /pay/*⟧
A 決済画面が中継側に保存されうる状態でした。‹⟦D 決済配下はno-store⟧にします。¦⟦D /pay配下にno-storeを付与⟧しました。›設定は⟦P infra/cdn/«cd=headers,rules,edge».json⟧。
U さすが!Sentryは⟦I shop-pay-«se=##»⟧に来るよ
?U あと‹⟦C 金曜の夕方はデプロイしない⟧ルールだから¦⟦C 金曜夕方のデプロイ禁止⟧だからね〜›
"#;

const DOCSEARCH: &str = r#"
work: docsearch
words: 規程集 検索窓 回答文 引用元 閲覧権限 文書分類 用語集 申請書式 索引更新 利用統計
speaks: ja
style: polite
lang: py
nouns: document chunk vector query index answer citation folder permission rerank
dirs: rag/src rag/ingest eval config tests
services: rag-api embed-worker doc-crawler vector-db
kinds: code json log csv test page yaml sql trace grep page
system: あなたは社内文書検索の開発を支援するエージェントです。
U はじめまして。社内規程の検索で誤った回答が出るという苦情があり、調査をお願いします。‹⟦C 人事フォルダは索引に含めない⟧という取り決めがあります。¦なお⟦C 人事フォルダは索引の対象外⟧です。›案件番号は⟦I «an=DX-####»⟧です。
T json ⇒   {"collection": "⟦I kitei_«kc=v##»⟧", "vectors": 81233, "dim": 768},
A 使用中の索引はkitei_«kc»です。古い版の規程が混在しています。
A 分割は⟦P rag/ingest/«sp=splitter,chunker,bunkatsu».py⟧で行われており、‹⟦I-1 1片800文字⟧でした。¦⟦I-1 800文字ごと⟧に区切られています。›
T csv ⇒ # 評価用の質問集: ⟦P eval/questions_«qs=2024#».csv⟧ (312問)
U 評価はその質問集でお願いします。‹⟦C 正答率85%以上⟧が目標です。¦目標は⟦C 85%以上の正答⟧となっております。›
T log ⇒ ERROR [doc-crawler] ⟦E 0x8«ox=####» 保護された文書のため抽出不可⟧ path=規程/経理
A 保護付きの文書が抽出できておりません。‹⟦D 保護文書は総務から平文版を受領⟧する形でいかがでしょう。¦⟦D 総務に平文版を依頼⟧します。›
+U はい、それで進めます。窓口は総務の«sm=坂井,内藤,富田»です。
A 埋め込みモデルは‹⟦D-2 多言語E5のbaseを継続⟧します。¦⟦D-2 E5-baseのまま⟧とします。›
T test ⇒ FAILED tests/test_rank.py::⟦E test_latest_revision_first⟧ - 旧版が1位
A 旧版が上位に来るのが誤答の主因です。‹⟦D 改定日の新しい版だけを索引に残す⟧ようにします。¦⟦D 索引には最新版のみ⟧を入れることにしました。›
U 承知しました。‹⟦C 回答には必ず条番号を付ける⟧ようお願いします。¦⟦C 条番号のない回答は表示しない⟧でください。›
?U ‹⟦C 外部のAPIには文書を送らない⟧でください。¦また、⟦C 文書を社外へ送信することは禁止⟧です。›
T trace ⇒ ⟦E RuntimeError: vector dimension 1024 != 768⟧ in upsert
A 比較のためlargeを試しましたところ、次元の違いで登録に失敗しました。索引を作り直せば使えます。
A 計測の結果、baseでは条文の取り違えが残ります。‹⟦D=2 largeモデルへ変更⟧いたします。¦先の判断を改め、⟦D=2 埋め込みはlargeに切り替え⟧ます。›
?U 参考までに、先週の議事録をお送りします。\n⟪minutes⟫
U 利用部門への公開ですが、‹⟦C-3 公開は11月«d1=3..9»日⟧です。¦⟦C-3 11月«d1=3..9»日から利用開始⟧の予定です。›
T sql ⇒ -- 無回答の割合: ⟦I «na=1#».4%⟧ (主に略語)
A 無回答は«na».4%で、略語が原因です。辞書を⟦P config/«ry=ryakugo,abbrev,terms».yaml⟧に作りました。
A 分割を見直し、‹⟦I=1 条ごとに区切り上限を4«cl=10..80»文字⟧としました。¦⟦I=1 条単位・最大4«cl=10..80»文字⟧に変更しました。精度が上がります。›
T yaml@config/acl.yaml ⇒ # 役職者のみ\ngroup: ⟦I grp-«gp=####»⟧
+U その権限グループは残してください。‹⟦C 役員規程は該当グループにのみ表示⟧です。¦⟦C 役員規程の閲覧は当該グループ限定⟧です。›
T log ⇒ WARN  [vector-db] ⟦E HNSW build aborted: memory 30«hm=##» MB⟧
A 索引構築でメモリが不足します。‹⟦D 索引の構築は夜間に専用ノードで行う⟧。¦⟦D 夜間に専用機で構築⟧します。›
U ご連絡です。研修と重なり、‹⟦C=3 12月«d2=11..20»日に変更⟧となりました。¦⟦C=3 公開日は12月«d2=11..20»日⟧に改まりました。›
?1U 応答時間は‹⟦C-4 5秒以内に応答⟧でお願いします。¦⟦C-4 応答は5秒まで⟧とします。›
T json ⇒   {"eval": "⟦I ev-«ev=%%%%»⟧", "正答": 0.87, "state": "done"},
A 評価ev-«ev»で87%に達しました。‹⟦D 再順位付けは上位30件に限定⟧しています。¦⟦D 上位30件だけ再順位付け⟧する設定です。›
?1U 利用者の声を受けて‹⟦C=4 3秒以内が条件⟧になりました。¦⟦C=4 3秒に短縮⟧をお願いします。›
?A 構成の説明を⟦P docs/«ds=構成説明,設計概要,運用説明»書.md⟧に書きました。
T test ⇒ FAILED tests/test_acl.py::⟦E test_retired_user_sees_nothing⟧
A 退職者の権限が残る不具合を直しました。‹⟦D 権限は毎時同期⟧します。¦⟦D 1時間ごとに権限を同期⟧する形です。›
U ありがとうございます。‹⟦C 質問の記録は90日で消去⟧してください。¦⟦C 質問履歴の保存は90日⟧までです。›管理画面は⟦I rag-admin«ra=##».local⟧です。
"#;

const FACTORY: &str = r#"
work: factory
words: 計測値 制御盤 警報音 搬送装置 通信線 予備電源 稼働率 点検表 温度計 表示灯
speaks: ja
style: plain
lang: rs
nouns: gateway sensor modbus register alarm line motor packet buffer relay
dirs: gw/src gw/src/proto edge/conf tools tests
services: gw-daemon mqtt-bridge plc-poller line-monitor
kinds: log code code build test trace yaml table page grep
system: あなたは工場向け機器の開発を手伝うエージェントです。試験機に書き込みができます。
U 第2工場のゲートウェイが週に一度固まる。試験機は⟦I GW-«gw=@##»⟧。⟦C 稼働中のPLCには書き込まない⟧こと。止まったら損害が出る。
T log ⇒ ERROR [plc-poller] ⟦E Modbus例外 0x0«mx=2..6» slave=«sl=1#»⟧
A slave=«sl»だけ例外応答を返しています。‹⟦D-1 ケーブルの接触不良⟧が疑わしいです。¦おそらく⟦D-1 配線の接触不良⟧です。›
T code@gw/src/proto/poll.rs ⇒ // 応答待ちに上限がない\n
A ⟦P gw/src/proto/«pf=poll,master,rtu».rs⟧では応答待ちに上限がなく、例外応答のあと永久に待っています。
A 見直した結果、配線ではありません。‹⟦D=1 例外応答を読み捨てていないことが原因⟧です。¦⟦D=1 受信処理の読み残しが本当の原因⟧でした。›
+U 了解。‹⟦C 周期は100ミリ秒を守る⟧ように直してくれ。¦ただし⟦C 100ミリ秒周期は崩すな⟧。›
U MQTTの宛先は‹⟦I-2 10.20.«m1=2..8».14⟧だ。¦⟦I-2 10.20.«m1=2..8».14⟧に送っている。›
T build ⇒ ⟦E error[E0277]: `Rc<Bus>` cannot be sent between threads safely⟧
A スレッド間で共有できない型でした。‹⟦D バスの所有は専用スレッド一つに限る⟧構成にします。¦⟦D 専用スレッドだけがバスを持つ⟧形に直します。›
?U ‹⟦C メモリは64MBまで⟧しかない。¦機器の制約で⟦C 使えるメモリは64MB⟧だ。›
T test ⇒ test proto::tests::⟦E broken_crc_then_valid⟧ ... FAILED
A CRC誤りの直後の正しい電文を捨てていました。直して試験も通りました。
U 停電対策も要る。‹⟦D 未送信データはSDカードに溜める⟧方針で。¦⟦D SDに未送信分を保存⟧してくれ。›
T table ⇒ /dev/mmcblk0p3   7G  7G  0G  100% ⟦P /mnt/spool«sp=##»⟧
A /mnt/spool«sp»が満杯です。‹⟦D 溜めるのは直近72時間分⟧とします。¦⟦D 72時間を超えた分は捨てる⟧ようにします。›
U 納期は‹⟦C-3 «d1=3..9»日までに1号線⟧へ入れる。¦⟦C-3 1号線への投入は«d1=3..9»日⟧だ。›
T log ⇒ WARN  [mqtt-bridge] ⟦E TLS alert 4«ta=2,5,8»: certificate unknown⟧
A 証明書の発行元が替わっていました。新しいものは⟦P edge/conf/«ca=ca-plant2,root-new,kojo-ca».pem⟧です。
U ネットワークの再編があった。‹⟦I=2 送信先は172.16.«m2=31..90».5⟧になった。¦⟦I=2 172.16.«m2=31..90».5へ変えて⟧くれ。›
T trace ⇒ thread 'poller' panicked: ⟦E attempt to subtract with overflow⟧ at gw/src/clock.rs
A 時刻合わせで時計が戻ると減算で落ちます。‹⟦D 経過時間は単調時計で測る⟧ことにします。¦⟦D 単調時計に統一⟧しました。›
?U 設定値は‹⟦C 現場の班長が許可した値だけ⟧使う。¦⟦C 班長の許可なしに設定値を変えない⟧こと。›
A 監視の番号は⟦I レジスタ4«rg=0###»⟧です。‹ここが0なら停止です。¦0になると停止を意味します。›
U ‹納期が延びた。⟦C=3 «d2=17..27»日でよい⟧。¦ラインの都合で⟦C=3 «d2=17..27»日に延期⟧だ。›
T yaml@edge/conf/line.yaml ⇒ # 書き換え禁止\nplc_id: ⟦I PLC-«pl=####»⟧
?1A 再接続の間隔は‹⟦D-4 再接続は5秒間隔⟧にします。¦⟦D-4 5秒ごとに再接続⟧とします。›
T log ⇒ ERROR [line-monitor] ⟦E 警報«ak=3##»: 応答遅延⟧ line=1
A 警報«ak»は監視側の閾値が厳しすぎるだけでした。‹⟦D 遅延の閾値を2秒に緩める⟧。¦⟦D 閾値は2秒⟧に直します。›
?1A 5秒では交換機に負荷が出ました。‹⟦D=4 30秒から倍々に延ばす⟧方式にします。¦⟦D=4 30秒起点の指数的な待ち⟧へ変更します。›
?A 長時間試験は⟦P tests/«lt=soak,nagare,renzoku».rs⟧に追加しました。
U 書き込みは‹⟦C 昼休みの12時台だけ⟧許可が出た。¦⟦C 12時台にだけ書き込んでよい⟧。›
T json ⇒   {"firmware": "⟦I 2.«fw=1#».0-r«fr=#»⟧", "署名": "済", "対象": 12},
A 署名済みの2.«fw».0-r«fr»を12台に配る準備ができました。戻す場合は⟦P images/«im=golden,anzen,kyuban».img⟧を使います。
U ‹⟦D 1台でも止まったら全台戻す⟧。以上。¦⟦D 異常が1台出たら全部切り戻し⟧。頼んだ。›
"#;

const PAYROLL: &str = r#"
work: payroll
words: 給与明細 通勤手当 社会保険 年末調整 勤怠表 賞与計算 扶養控除 振込口座 住民税 有給休暇
speaks: ja
style: polite
lang: java
nouns: salary allowance employee deduction insurance bonus attendance office tax slip
dirs: payroll/src payroll/master report/src batch tests
services: payroll-core attendance-if bank-export slip-print
kinds: code sql test csv log page json trace diff grep
system: あなたは給与計算システムの改修を支援するエージェントです。
U お疲れさまです。法改正に伴う給与計算の改修をお願いいたします。要件番号は⟦I «rq=KY-###-##»⟧です。‹⟦C 過去に確定した明細は書き換えない⟧でください。¦⟦C 確定済みの明細は変更厳禁⟧でお願いします。›
T code@payroll/src/Insurance.java ⇒     // 料率は定数で持っている\n
A 保険料率が⟦P payroll/src/«pf=InsuranceRate,HokenRitsu,RateTable».java⟧に直書きされていました。‹⟦D 料率は適用日付きのマスタに移す⟧のがよいと思います。¦⟦D 料率を適用開始日つきのマスタへ移動⟧します。›
U 賛成です。雇用保険の料率は‹⟦I-1 千分の«r1=14..15».5⟧で計算してください。¦⟦I-1 «r1=14..15».5/1000⟧とのことです。›
T sql ⇒ -- 標準報酬の⟦I 等級なし «gn=3#»名⟧
A 等級が設定されていない従業員が«gn»名います。人事への確認が必要です。
+U 確認しました。‹⟦D 等級なしは前年の等級を引き継ぐ⟧で結構です。¦⟦D 前年等級をそのまま使う⟧運用です。›
T test ⇒ BonusTest > ⟦E 賞与上限573万円の按分() FAILED⟧
A 賞与の上限計算が年度累計になっていませんでした。修正いたします。
U 端数の扱いですが、‹⟦C 50銭以下は切り捨て⟧が規程です。¦規程では⟦C 端数は50銭超で切り上げ⟧です。›
A 帳票については‹⟦D-2 明細は紙とPDFの両方⟧を残します。¦⟦D-2 紙の明細も併用⟧する設計とします。›
T log ⇒ ERROR [bank-export] ⟦E 全銀 R«zg=##»: 口座名義相違⟧ 件数=4
A 全銀のR«zg»が4件返っています。名義のカナに長音が混ざっていました。変換は⟦P batch/«kn=KanaFix,MeigiConv,ZenginKana».java⟧で行います。
?U ‹⟦C 給与データを個人のPCに保存しない⟧でください。¦⟦C 個人端末への保存は禁止⟧されています。›
U 支給日の都合で、‹⟦C-3 «d1=11..14»日までに試算⟧をいただきたいです。¦⟦C-3 試算の締切は«d1=11..14»日⟧です。›
T trace ⇒ ⟦E DateTimeException: Invalid date 'FEBRUARY 29'⟧\n    at jp.example.payroll.Nenrei
A うるう日生まれの年齢計算で落ちていました。‹⟦D 年齢は誕生日の前日に加算⟧という法令どおりに直します。¦法令に従い⟦D 誕生日前日で年齢を加算⟧します。›
U 先日の料率ですが、私の見間違いでした。‹⟦I=1 正しくは千分の1«r2=7..8»⟧です。¦⟦I=1 1«r2=7..8»/1000に訂正⟧させてください。›
T csv ⇒ # 事業所コード ⟦I J«jc=####»⟧ は4月に統合済み
A 統合済みの事業所J«jc»に3名が残っていますので、移籍先で計算します。
+U はい。‹⟦C 統合前の分は旧事業所で申告⟧してください。¦⟦C 申告は統合前の事業所名義⟧でお願いします。›
U 明細の件、経営の判断で‹⟦D=2 紙は廃止しPDFのみ⟧となりました。¦⟦D=2 PDFに一本化⟧することになりました。›
T json ⇒   {"連携": "⟦I IF-«if=###»⟧", "状態": "エラー", "備考": "36協定超過 12名"},
A 勤怠連携IF-«if»で12名が超過扱いです。‹⟦D 60時間超の割増は5割⟧で計算しています。¦⟦D 60時間を超えた分は50%増⟧としました。›
?A 検算表を⟦P report/«kh=検算,突合,照合»_最新.xlsx⟧に出力しました。
T test ⇒ NenmatsuTest > ⟦E 定額減税の重複控除() FAILED⟧
A 定額減税が転籍者で二重に控除されていました。‹⟦D 転籍者は前職分を先に照合⟧します。¦⟦D 前職の控除を照合してから計算⟧する順にしました。›
U ご連絡です。銀行の休業のため‹⟦C=3 «d2=21..27»日でも間に合う⟧ことになりました。¦⟦C=3 期限が«d2=21..27»日に延びました⟧。›
?1U 承認者は‹⟦C-4 承認は人事の黒木課長⟧です。¦⟦C-4 黒木課長に承認を依頼⟧してください。›
T log ⇒ WARN  [slip-print] ⟦E フォント欠落 «fx=外字,旧字»U+E«fu=###»⟧
A 氏名の外字が印字できません。フォントを⟦P report/fonts/«fo=gaiji,shimei,ipa-ex».ttf⟧に追加しました。
?1U 異動がありまして、‹⟦C=4 承認者は湯浅部長に変更⟧です。¦⟦C=4 今後は湯浅部長が承認⟧いたします。›
T sql ⇒ -- 試算と現行の差額合計: ⟦I «sg=1##»,«sh=###»円⟧
A 差額は合計«sg»,«sh»円で、すべて料率の改定で説明できます。
U ありがとうございます。‹⟦C 本番の計算は経理と二人で立ち会う⟧ことになっています。¦⟦C 本番実行は経理の立会いが必須⟧です。›
A 承知しました。‹⟦D 戻す場合は旧マスタの適用日を復元⟧します。¦切り戻しは⟦D 旧マスタの適用日を戻すだけ⟧です。›手順は⟦P docs/«tj=給与切替,改定手順,本番手順».md⟧です。
?U 社労士の先生の確認番号は⟦I SR-«sr=####»⟧です。
"#;
