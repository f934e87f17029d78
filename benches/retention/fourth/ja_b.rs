//! Owns the scripts of Japanese sessions, second half: image inspection, cloud costs, app notifications, delivery
//! routes, a city web site. How they are read: [`super::play`].

/// The scripts.
pub(super) const SCRIPTS: &[&str] = &[INSPECT, COSTS, NOTIFY, ROUTES, CITY];

const INSPECT: &str = r#"
work: inspect
words: 部品画像 照明条件 ラベル付け 打痕 検査台 学習曲線 過検出 撮影位置 良品見本 ロット番号
speaks: ja
style: chat
lang: py
nouns: image label mask camera lot defect batch epoch threshold crop
dirs: train/src train/conf data/tools eval export
services: gpu-box label-studio line-camera model-store
kinds: log code csv yaml trace json test page table code
system: あなたは外観検査モデルの学習を手伝うエージェントです。
U おつかれー。部品の傷検出モデル、最近見逃しが増えててさ。基準の学習は⟦I exp-«ex=%%%%»⟧ね。‹⟦C 見逃しは0.1%以下⟧が客先との約束¦客先との約束で⟦C 見逃し率0.1%以下⟧なんだよね›
T csv ⇒ # 追加画像: ⟦P data/lots/«lo=2024-##»/⟧ 3,120枚 (ラベル済み)
A 追加された«lo»の画像だけ照明が暗く、傷の写り方が違います。
+U あ、照明替えたんだった…。‹⟦D 明るさを正規化してから学習⟧しよ¦じゃあ⟦D 前処理で明るさを揃える⟧で›
A モデルは‹⟦D-1 EfficientNet-B4を使います⟧。¦⟦D-1 B4のまま⟧いきます。›
T trace ⇒ ⟦E RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED⟧
A GPUのドライバーとの不整合でした。‹⟦C ドライバーは5«dv=3#»系に固定⟧しておきます。¦更新で壊れるので⟦C 5«dv=3#»系から上げない⟧でください。›
T code@data/tools/split.py ⇒ # ランダム分割。同じ部品が両方に入る\n
A ⟦P data/tools/«sf=split,make_folds,bunkatsu».py⟧の分割だと、同じ部品の写真が学習と評価の両方に入っています。
+U うわ、それで評価だけ良かったのか。‹⟦D 分割は部品番号単位⟧でお願い¦⟦D 部品番号ごとに分ける⟧やつで!›
U 判定の閾値は‹⟦I-2 閾値0.«t1=41..59»⟧で動いてる¦今ラインは⟦I-2 0.«t1=41..59»で判定⟧してる›
T log ⇒ ERROR [line-camera] ⟦E CAM-«cm=##» フレーム欠落 37%⟧ port=3
A CAM-«cm»が3番のカメラで多発しています。欠けた画像は学習から外します。
?U ‹⟦C 客先の部品画像は社外に出さない⟧でね、契約ある¦契約で⟦C 画像の社外持ち出し禁止⟧だから!›
T json ⇒   {"project": "⟦I ls-«ls=###»⟧", "未確認": 212, "備考": "打痕と汚れの混同"},
A ラベル付けのls-«ls»で打痕と汚れが混ざっていました。‹⟦D 汚れは不良に数えない⟧でいいですか?¦⟦D 汚れは良品扱い⟧にしますね。›
+U うん、客先もそう言ってる
A B4では1枚80ミリ秒かかり間に合いません。‹⟦D=1 MobileNetV3に替えました⟧。¦⟦D=1 軽いMobileNetV3へ変更⟧します。›
U 速度は‹⟦C 1枚25ミリ秒以内⟧ね、コンベア速いから¦コンベアが速いから⟦C 25ミリ秒で判定⟧して›
T test ⇒ FAILED tests/test_export.py::⟦E test_onnx_matches_torch⟧ - 差 0.031
A ONNXに変換すると値がずれます。リサイズの補間が違うためで、⟦P export/«on=to_onnx,convert,henkan».py⟧を直しました。
U 納品いつだっけ…‹⟦C-3 «d1=3..9»日に現場へ納品⟧だ¦⟦C-3 納品は«d1=3..9»日⟧だったはず›
T yaml@train/conf/aug.yaml ⇒ # 回転は禁止(刻印の向きで判定するため)\nrotate: 0
A 設定の注記どおり、‹⟦C 回転の水増しはしない⟧方針を守ります。¦⟦C 画像を回転させて増やさない⟧ようにします。›
T csv ⇒ # 再学習後: 見逃し ⟦I 0.0«ms=4..8»%⟧ 過検出 2.1%
A 見逃し0.0«ms»%まで下がりました。‹新しい閾値は⟦I=2 0.«t2=61..79»が最適⟧です。¦判定値は⟦I=2 0.«t2=61..79»に変更⟧してください。›
U さいこー!あ、納品ずれて‹⟦C=3 «d2=18..27»日でOK⟧になった¦⟦C=3 «d2=18..27»日に変わった⟧よ›
?1U 過検出は‹⟦C-4 過検出3%まで⟧¦⟦C-4 3%までの過検出⟧は我慢するって›
T log ⇒ WARN  [model-store] ⟦E 署名検証失敗 model-«mo=##»⟧
A model-«mo»の署名が古い鍵でした。正しい鍵は⟦I key-«ke=%%%%»⟧です。
?1U 検査員さんの人手が足りず‹⟦C=4 1.5%が上限⟧になった💦¦⟦C=4 過検出は1.5%以下⟧に変更だって›
?A 評価の結果表は⟦P eval/«ev=final,matome,kekka»_table.csv⟧です。
T table ⇒ /dev/sdb1   3T  3T  0G  99% /data ⟦E 書き込み遅延⟧
A 古い学習の中間ファイルを消します。‹⟦C exp-で始まる記録は消さない⟧ようにします。¦ただ⟦C exp-の記録は残す⟧ようにします。›
U ‹⟦D 最初の1週間は人の目と併用⟧で始める¦始めは⟦D 1週間だけ目視と並行⟧で›
A 了解です。現場用の手順は⟦P docs/«gd=現場手順,ライン手順,交換手順».md⟧、‹⟦D 異常時は旧モデルに自動で戻る⟧設定です。¦おかしくなったら⟦D 自動で旧モデルへ復帰⟧します。›
U ライン側のIDは⟦I LINE-«li=@#»⟧だよ〜
"#;

const COSTS: &str = r#"
work: costs
words: 請求明細 仮想サーバー 保存領域 通信料 夜間停止 利用部門 見積書 監視設定 予算枠 割引契約
speaks: ja
style: plain
lang: tf
nouns: instance bucket snapshot volume cluster replica subnet queue function log
dirs: envs/prod envs/dev modules/compute modules/storage reports
services: cost-export batch-cluster log-pipeline web-front
kinds: csv json code yaml table log page diff build sql
system: あなたはクラウド基盤の担当者を補助するエージェントです。適用には承認が要ります。
U クラウド費用が予算を超えた。‹目標は⟦C-1 月額«g1=3..4»00万円⟧。¦⟦C-1 月«g1=3..4»00万円まで⟧に下げたい。›対象の契約は⟦I acct-«ac=######»⟧。⟦C 本番の台数は減らさない⟧。
T csv ⇒ # 先月の上位: ログ保存 ⟦I 1«lg=#2»万円⟧
A ログ保存が1«lg»万円で最大です。‹⟦D デバッグログは保存しない⟧だけで半分になります。¦まず⟦D デバッグログの保存をやめる⟧のが効きます。›
+U いい。ただし‹⟦C 監査ログは7年保存⟧だ。¦⟦C 監査ログの7年保存は義務⟧。›
A 設定の場所は⟦P modules/storage/«lf=log_retention,lifecycle,hokan».tf⟧です。
T json ⇒   {"volume": "⟦I vol-0«vo=%%%%%%»⟧", "state": "available", "size": 4000},
A vol-0«vo»は4TBで、どこにもつながっていません。消してよいですか。
+U だめだ。‹⟦C そのボリュームは訴訟の証拠なので残す⟧。¦訴訟が終わるまで⟦C 証拠保全のため削除不可⟧。›
A 計算資源は‹⟦D-2 1年の予約購入⟧に切り替えます。¦⟦D-2 予約インスタンスを1年分購入⟧する案です。›
T build ⇒ ⟦E Error: Cycle: module.compute, module.«cy=dns,queue»⟧
A 循環参照が出ました。共通部分を⟦P modules/compute/«co=shared,common,kyotsu».tf⟧に切り出して解消しました。
U 作業時間は‹⟦C-3 平日の20時以降⟧だけ。¦⟦C-3 平日20時から⟧にしてくれ。›
T log ⇒ ERROR [batch-cluster] ⟦E SpotInterruption: capacity-not-available⟧ az=1«az=a,c,d»
A スポットが中断されます。‹⟦D バッチは中断されたら途中から再開⟧させます。¦⟦D 途中再開できるようバッチを直す⟧ことにします。›
?U ‹⟦C 東京以外のリージョンは使わない⟧。¦規程で⟦C 東京リージョンのみ⟧だ。›
T yaml@envs/dev/schedule.yaml ⇒ # 夜間停止の対象外: ⟦I dev-«dx=###»⟧
A 開発環境は夜間に止めます。dev-«dx»だけは海外拠点が使うため除外です。‹⟦D 開発環境は21時に停止⟧。¦⟦D 21時に開発環境を落とす⟧設定です。›
A 来年の構成変更を考えると、予約は縛りが強すぎます。‹⟦D=2 柔軟な節約プランを採用⟧します。¦⟦D=2 節約プランに変更⟧し、予約は見送ります。›
T table ⇒ default     web-front-«wf=%%%%»          0/1    ⟦E OOMKilled (limit 256Mi)⟧   12         1h
A 小さくしすぎました。‹⟦D web-frontのメモリは512Miに戻す⟧。¦⟦D メモリ上限を512Miへ戻します⟧。›
U 役員会で話が変わった。‹⟦C=1 目標を2«g2=2..8»0万円に引き下げ⟧。¦⟦C=1 2«g2=2..8»0万円が新しい上限⟧だ。›
T sql ⇒ -- 転送量の多い宛先: ⟦I nat-0«na=%%%%%»⟧ 78%
A 転送の78%がnat-0«na»経由の画像でした。‹⟦D 画像は専用エンドポイント経由⟧にします。¦⟦D エンドポイントを置いてNATを通さない⟧形にします。›
T diff ⇒ -  deletion_protection = true\n+  deletion_protection = false  # ⟦E 誤って無効化⟧
A 先月の変更で本番DBの削除保護が外れていました。戻し、検査を⟦P policies/«po=protect,hogo,nodelete».rego⟧に追加しました。
U 助かった。作業時間だが、‹⟦C=3 日曜の朝6時から⟧に変える。¦⟦C=3 日曜6時開始⟧へ変更。›
?1U 承認は‹⟦C-4 承認者は宇野部長⟧。¦⟦C-4 宇野部長の承認⟧が要る。›
T log ⇒ WARN  [cost-export] ⟦E 課金データ欠損 1«kd=#»日分⟧
A 欠損は再出力で埋まりました。番号は⟦I cur-«cu=%%%%»⟧です。
?1U 部長が代わった。‹⟦C=4 今後は永井部長が承認⟧する。¦⟦C=4 承認は永井部長⟧だ。›
?A 削減の内訳は⟦P reports/«re=sakugen,cost_cut,uchiwake».xlsx⟧にあります。
U ‹⟦C 客先の契約環境は対象外⟧。間違えるな。¦⟦C 顧客専用環境には手を付けない⟧こと。›
T json ⇒   {"plan": "⟦I sp-«sp=%%%%%»⟧", "commit_per_hour": 4.1, "state": "queued"},
A sp-«sp»を購入待ちにしました。‹⟦D 購入は月初に行う⟧のが得です。¦⟦D 月初まで購入を待つ⟧ことにします。›
T trace ⇒ ⟦E AccessDenied: organizations:ListAccounts⟧
A 権限が足りず子契約の一覧が取れません。権限の申請は⟦I REQ-«rq=####»⟧で出しました。
U よし。‹⟦D 毎月5日に実績を報告⟧する運用にする。¦⟦D 報告は毎月5日⟧。›
A 計画は⟦P plans/«pl=dankai,phase,keikaku»_最終.md⟧に残しました。
"#;

const NOTIFY: &str = r#"
work: notify
words: 通知音 端末登録 お知らせ一覧 既読表示 配信予約 受信設定 バッジ表示 機種依存 利用者層 配信結果
speaks: ja
style: chat
lang: kt
nouns: push token channel badge topic inbox schedule receiver device profile
dirs: app/src/main app/src/notify server/push tests/ui gradle
services: push-server token-store scheduler-svc crash-report
kinds: code log json test trace build page grep diff csv
system: あなたはAndroidアプリの開発を支援するエージェントです。
U 通知が届かないって問い合わせが増えてるんだよね〜。チケットは⟦I «tk=APP-####»⟧。‹⟦C 最低対応はAndroid 9⟧でよろしく¦⟦C Android 9から動くこと⟧が条件›
T log ⇒ ERROR [push-server] ⟦E FCM UNREGISTERED 4«un=#»%⟧ topic=sale
A 4«un»%がUNREGISTERED、つまり無効な端末トークンです。更新処理に問題がありそうです。
T code@app/src/notify/TokenSync.kt ⇒ // 起動時に一度だけ送る\n
A ⟦P app/src/notify/«tf=TokenSync,TokenSender,PushRegister».kt⟧が起動時に一度しか送らないのが原因です。‹⟦D トークン変更時に毎回サーバーへ送る⟧よう直します。¦⟦D 変わるたびにトークンを再送⟧します。›
U なるほど!送信の時間帯だけど‹⟦C-1 通知は8時から22時⟧で¦⟦C-1 8時〜22時だけ通知⟧ね›
A 定期処理は‹⟦D-2 AlarmManagerで組みます⟧。¦⟦D-2 AlarmManagerを採用⟧します。›
T trace ⇒ ⟦E ForegroundServiceStartNotAllowedException⟧\n    at jp.example.notify.SyncService
A 裏からサービスを起動できない制限に当たりました。‹⟦D=2 WorkManagerに変更⟧します。¦やっぱり⟦D=2 WorkManagerでいきます⟧。›
U 検証端末は⟦I Pixel-«px=##»番⟧使って。‹⟦C 本番のトピックに試験送信しない⟧でね、前やらかした人いる笑¦⟦C 本番トピックへのテスト送信禁止⟧、前科あり笑›
T json ⇒   {"project": "⟦I push-prj-«pp=###»⟧", "状態": "quota 92%"},
A push-prj-«pp»の送信枠が92%です。‹⟦D 一斉送信は10分に分散⟧させます。¦⟦D 10分かけて分散送信⟧にしますね。›
?U ‹⟦C 位置情報の権限は追加しない⟧で!審査落ちる¦審査があるから⟦C 位置情報は使わない⟧方向で›
T test ⇒ InboxTest > ⟦E 既読が端末間でずれる() FAILED⟧
A 既読は端末の時計で比べていました。‹⟦D 既読はサーバー時刻で比較⟧します。¦⟦D サーバーの時刻で既読判定⟧に直します。›
U リリースは‹⟦C-3 版番号8.«v1=1..4»で出す⟧つもり¦⟦C-3 8.«v1=1..4»に入れる⟧予定ね›
T build ⇒ ⟦E Duplicate class com.google.android.gms.«dg=tasks,base»⟧
A ライブラリの重複でした。版は⟦P gradle/«gv=libs,versions,hanban».versions.toml⟧で揃えました。
U ごめん、法務から指摘で‹⟦C=1 9時から20時に短縮⟧になった¦通知の時間⟦C=1 9時〜20時に変更⟧で!›
T csv ⇒ # 到達率 変更前: ⟦I 6«tr=#».3%⟧
A 変更前の到達率は6«tr».3%と控えておきます。
T log ⇒ WARN  [scheduler-svc] ⟦E 夏時間の二重送信 tz=«tz=Europe/Paris,America/Chicago»⟧
A 海外の利用者に二重送信されていました。‹⟦D 予約はUTCで保存⟧します。¦⟦D 予約時刻の保存はUTC⟧に統一です。›
?U サポートからこんなの来てた、見るだけ見て\n⟪log⟫
U うわ〜。‹⟦C お詫びの通知は送らない⟧って決まった¦⟦C お詫び通知はなし⟧で、偉い人判断›
?1U 担当デザイナーは‹⟦C-4 アイコンは星野さんに依頼⟧¦⟦C-4 星野さんにアイコン頼む⟧›
T grep ⇒ app/src/main/AndroidManifest.xml:44: ⟦P app/src/main/res/raw/«sd=chime,notify_a,pon».ogg⟧
A 通知音のファイルが縮小処理で消えていたので、残す指定を追加しました。
U 8.«v1»は締め切っちゃったから‹⟦C=3 次の9.0に載せる⟧¦⟦C=3 9.0で出そう⟧ね›
?1U 星野さん産休なので‹⟦C=4 アイコンは桐谷さん⟧に¦⟦C=4 桐谷さんに変わった⟧よ›
A 承知しました。通知の種類は‹⟦D チャンネルは3種類に整理⟧します。¦⟦D 3つのチャンネルにまとめる⟧形です。›
T json ⇒   {"crash": "⟦I CR-«cr=%%%%»⟧", "件数": 812, "機種": "折りたたみ"},
A CR-«cr»は折りたたみ機種だけで、画面の作り直しが原因でした。修正は⟦P app/src/main/«fd=FoldState,InboxScreen,PaneHost».kt⟧。
?A 端末での確認手順を⟦P docs/«td=通知確認,端末試験,実機確認».md⟧に書きました。
U ‹⟦C 段階公開は5%から⟧始めて¦公開は⟦C まず5%に配信⟧で›
T test ⇒ ChannelTest > ⟦E 重要度の引き下げ不可() FAILED⟧
A 一度作った通知の重要度は下げられない仕様です。‹⟦D 新しいIDで作り直す⟧ことにします。¦なので⟦D チャンネルIDを新規に発行⟧します。›新IDは⟦I ch_«ch=news,sale,info»_v«cv=#»⟧です。
U おっけー!‹⟦D クラッシュ率0.5%超えたら配信停止⟧で¦⟦D 0.5%超のクラッシュで公開を止める⟧ことにしよ›
U サーバーの管理画面は⟦I push-console-«pc=##»⟧から入れるよ
"#;

const ROUTES: &str = r#"
work: routes
words: 配送順 積み荷 営業所 時間指定 走行距離 渋滞情報 運転日報 再配達 車両点検 地図表示
speaks: ja
style: plain
lang: py
nouns: route vehicle depot parcel driver window distance load stop region
dirs: solver/src solver/data api web/map tests
services: route-solver map-tiles dispatch-api geo-cache
kinds: code csv json sql log test trace page yaml csv
system: あなたは配送計画の開発を支援するエージェントです。
U 配送ルートの計算が朝に間に合わない。拠点は⟦I 拠点«dp=#0#»⟧を例に調べてくれ。‹⟦C 運転は連続4時間まで⟧。法律だ。¦法律で⟦C 4時間を超える連続運転は禁止⟧。›
T log ⇒ ERROR [route-solver] ⟦E SOLVE_TIMEOUT «st=18..29»00s⟧ stops=412
A 412件を一度に解いて時間切れです。‹⟦D-1 地域ごとに先に分割⟧して解きます。¦⟦D-1 地域分割してから解く⟧方針とします。›
T code@solver/src/matrix.py ⇒ # 毎回全点間を計算\n
A 距離表を毎回作り直していました。⟦P solver/src/«mf=matrix,distance_table,kyori».py⟧に保存の仕組みを入れます。
U 締切は‹⟦C-2 5時半までに計画を出す⟧こと。¦⟦C-2 計画は5時半まで⟧に要る。›
T csv ⇒ # ⟦I 時間指定なし «nw=3#»%⟧
A 時間指定なしが«nw»%あるので、‹⟦D 指定なしは最後に詰める⟧と速くなります。¦⟦D 指定なしの荷物を後回しにする⟧のが有効です。›
+U いい。ただ‹⟦C 冷凍品は積んで90分以内⟧だ。¦⟦C 冷凍品は90分以内に届ける⟧。›
T trace ⇒ ⟦E ValueError: negative cycle at node «nc=###»⟧
A 一方通行の登録誤りで負の閉路ができていました。地図の修正票は⟦I MAP-«mp=####»⟧です。
?U ‹⟦C 委託の運転手の経路は変えない⟧。契約がある。¦契約上、⟦C 委託車両の経路は固定⟧だ。›
A 地域で分けると境界で空走りが増えました。‹⟦D=1 時間帯で分ける方式に改めます⟧。¦分割はやめ、⟦D=1 時間帯単位で解く⟧ことにします。›
T sql ⇒ -- 車両«vh=##»台のうち車検切れ: ⟦I 車番«cn=####»⟧
A 車番«cn»は車検切れのため除外しました。
U ソルバーは‹⟦D-3 有償版を契約⟧する予定だ。¦⟦D-3 有償ソルバーを買う⟧。›
T test ⇒ FAILED tests/test_load.py::⟦E test_two_ton_limit⟧ - 2140 > 2000
A 容積だけで重さを見ていませんでした。‹⟦D 積載は重量と容積の両方で判定⟧。¦⟦D 重量も制約に入れる⟧よう直しました。›該当は⟦P solver/src/«lf=capacity,tsumini,loadcheck».py⟧。
U ‹現場と話した。⟦C=2 4時50分が期限⟧になった。¦積み込みが早まり⟦C=2 期限は4時50分⟧だ。›
T json ⇒   {"job": "⟦I job-«jb=%%%%»⟧", "state": "infeasible", "備考": "橋の通行止め"},
A job-«jb»は橋の通行止めで解がありません。‹⟦D 通行止めは前日20時に取り込む⟧。¦⟦D 前夜20時の通行規制を反映⟧します。›
U ‹予算が下りなかった。⟦D=3 OR-Toolsで続ける⟧。¦有償版は却下された。⟦D=3 無償のOR-Toolsを使う⟧。›
T log ⇒ WARN  [geo-cache] ⟦E 住所不明 1«gu=##»件⟧ (新しい町名)
A 町名変更が原因でした。対応表は⟦P solver/data/«tn=chomei,new_towns,jusho».csv⟧です。
?U ‹⟦C 個人宅の住所をログに出さない⟧こと。¦ログには⟦C 届け先の住所を残さない⟧。›
T yaml@api/conf.yaml ⇒ # 係数は現場と合意\npenalty_late: ⟦I 遅延係数«pl=2#0»⟧
?1A 乱数は‹⟦D-4 探索は3分で打ち切り⟧にします。¦⟦D-4 3分で探索終了⟧とします。›
T csv ⇒ # 改善後の総走行: ⟦I «km=41..58»,2«kl=1..9»0km⟧
A 総走行は前より1割短くなりました。‹⟦D 運転手の担当地域は維持⟧しています。¦なお⟦D 担当地域は変えない⟧ままです。›
?1A 夜の試験で余裕があるとわかり、‹⟦D=4 打ち切りを8分に延長⟧します。¦⟦D=4 8分まで探索⟧に変えます。›
T trace ⇒ ⟦E MemoryError: tile cache 16«tc=##»MB⟧
A 地図の保持量に上限を付けました。設定は⟦P web/map/«mc=tiles,cache,hyoji».toml⟧です。
U 試行は‹⟦C 最初は川口の営業所だけ⟧。¦⟦C 川口営業所で先に試す⟧。›
A 了解です。‹⟦D 計算失敗時は前日の計画を使う⟧ようにします。¦失敗したら⟦D 前日計画で代替⟧します。›
T log ⇒ ERROR [dispatch-api] ⟦E 409 計画が確定済み⟧ id=«di=#####»
U 確定後の変更は‹⟦C 配車係の津田さんだけが変更可⟧。¦⟦C 津田さん以外は確定後に触れない⟧。›
?A 説明資料は⟦P docs/«dd=配車説明,計画説明,導入説明».pptx⟧です。
U 問い合わせの内線は⟦I 内線«nx=4###»⟧。
"#;

const CITY: &str = r#"
work: city
words: お知らせ 施設案内 申込書 子育て支援 ごみ収集 広報誌 避難所一覧 担当課 更新履歴 検索結果
speaks: ja
style: polite
lang: ts
nouns: page notice facility event form menu archive banner section document
dirs: site/src site/content tools/import public tests
services: cms-export site-build form-api search-proxy
kinds: page page code ls json test build grep log csv
system: あなたは自治体サイトの移行を支援するエージェントです。
U お世話になります。市の公式サイトの移行について、ご協力をお願いいたします。契約番号は⟦I «kn=第####号»⟧です。‹⟦C JIS X 8341のAA準拠⟧が必須となります。¦前提として⟦C アクセシビリティはAA準拠⟧です。›
T csv ⇒ # 旧CMSの書き出し: ⟦P export/cms-«ce=%%%%».xml⟧ 14,220件
A 書き出しを確認しました。‹⟦D 3年以上更新のないページは保管庫へ⟧移すのはいかがでしょうか。¦⟦D 3年更新なしのページは保管扱い⟧を提案します。›
+U 結構です。ただし‹⟦C 防災のページは古くても残す⟧ようお願いします。¦⟦C 防災関連は必ず移す⟧でください。›
A 生成の仕組みは‹⟦D-1 Next.jsで構築⟧いたします。¦⟦D-1 Next.jsを使う⟧方針です。›
T log ⇒ ERROR [cms-export] ⟦E XML解析失敗 行«xl=#####»: 不正な実体参照⟧
A 旧データに壊れた記号が混ざっています。補正を⟦P tools/import/«fx=entities,repair,hosei».ts⟧に書きました。
U 公開日は‹⟦C-2 2月«d1=3..9»日に公開⟧の予定です。¦⟦C-2 2月«d1=3..9»日の公開⟧を目指しております。›
T json ⇒   {"form": "⟦I form-«fm=###»⟧", "状態": "稼働中", "備考": "粗大ごみの申込"},
A form-«fm»は粗大ごみの申込で、毎日使われています。‹⟦C 申込フォームは移行中も止めない⟧必要がありますね。¦⟦C 粗大ごみ申込を停止させない⟧ように進めます。›
T test ⇒  ❯ tests/a11y.spec.ts\n   ⟦E color-contrast 違反 2«cc=#»箇所⟧
A 見出しの緑が薄く、基準に届きません。色の定義は⟦P site/src/«cs=colors,theme,iro».css⟧です。
?U 以前の打ち合わせの記録です。ご参考になれば幸いです。\n⟪minutes⟫
U 市の色は決まっておりまして、‹⟦I 緑は#0«gr=%%%%»5⟧でお願いします。¦指定色は⟦I #0«gr=%%%%»5⟧です。›
?U ‹⟦C 外部の計測タグは入れない⟧でください。¦⟦C アクセス解析の外部タグは禁止⟧です。›
T build ⇒ ⟦E JavaScript heap out of memory⟧ (13,000ページ目)
A 件数が多く、生成が途中で止まります。‹⟦D=1 Astroに変更⟧いたします。¦先の選択を改め、⟦D=1 Astroで作り直し⟧ます。›
U 検索については‹⟦D-3 検索は外部サービスを契約⟧で考えています。¦⟦D-3 外部の検索サービス⟧を利用する予定です。›
T grep ⇒ site/content/kosodate.md:12: ⟦P public/pdf/«pd=hokatsu,kosodate,yobou»_r6.pdf⟧
A PDFのみの案内が多数あります。‹⟦D PDFには要約文を必ず添える⟧ことにします。¦⟦D PDF掲載時は要約を付ける⟧規則としました。›
U 議会の日程の関係で、‹⟦C=2 公開は3月«d2=12..24»日⟧に変更となりました。¦⟦C=2 3月«d2=12..24»日へ延期⟧いたします。›
T log ⇒ WARN  [search-proxy] ⟦E 429 上限«rl=3#0»回/時⟧
A 外部検索は回数の制限に当たりました。
+U 予算も認められませんでしたので、‹⟦D=3 検索は静的索引で自前に用意⟧してください。¦⟦D=3 自前の静的な検索⟧に切り替えをお願いします。›
T ls ⇒ -rw-r--r-- 1 web web 40213 Nov 1 ⟦P site/content/redirects-«rd=%%%».csv⟧
A 旧アドレスの対応表です。‹⟦D 転送は2年間維持⟧します。¦⟦D 旧URLの転送を2年残す⟧設定です。›
?1U 確認の窓口は‹⟦C-4 広報課の菅野が確認⟧いたします。¦⟦C-4 菅野(広報課)にご確認⟧ください。›
T trace ⇒ ⟦E TypeError: Invalid time value⟧ 和暦«wa=平成31,令和元»年
A 和暦の変換で落ちていました。‹⟦D 日付は西暦で保存し和暦で表示⟧します。¦⟦D 保存は西暦、表示は和暦⟧にします。›
?1U 人事異動により‹⟦C=4 確認者は広報課の柴田⟧となりました。¦⟦C=4 今後は柴田が確認⟧します。›
T json ⇒   {"施設": "⟦I 施設ID «sh=F####»⟧", "状態": "重複", "備考": "公民館"},
A 公民館が二重登録でした。施設ID «sh»を正とします。
U ‹⟦C やさしい日本語版も同時に公開⟧してください。¦併せて⟦C やさしい日本語版が必要⟧です。›
?A 検査の結果は⟦P reports/«ar=a11y,kensa,shiken»-final.html⟧にあります。
T log ⇒ ERROR [form-api] ⟦E 文字化け Shift_JIS変換 U+«ub=2###»⟧
A 申込データの連携先がShift_JISでした。‹⟦D 変換できない文字は〓に置換⟧します。¦⟦D 変換不能文字は〓とする⟧ことにします。›
U ありがとうございます。‹⟦C 選挙期間中は更新を凍結⟧いたします。¦なお⟦C 選挙期間は更新禁止⟧です。›検収番号は⟦I KS-«kx=####»⟧です。
A 承知いたしました。‹⟦D 不具合時はDNSを旧サーバーへ戻す⟧手順です。¦切り戻しは⟦D DNSで旧サーバーに戻す⟧形です。›詳細は⟦P docs/«kd=切替手順,公開手順,公開当日».md⟧です。
"#;
