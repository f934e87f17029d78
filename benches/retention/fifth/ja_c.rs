//! Owns the Japanese scripts about tax on invoices, notices of a travel app, and appointments of a clinic.

use super::script::Scenario;
use super::words::Lang;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "ja-invoice-tax",
        lang: Lang::Ja,
        system: "会計システムの改修を支援するエージェントです。",
        script: TAX,
    },
    Scenario {
        name: "ja-travel-notices",
        lang: Lang::Ja,
        system: "アプリ開発チームの一員として動く。",
        script: TRAVEL,
    },
    Scenario {
        name: "ja-clinic-appointments",
        lang: Lang::Ja,
        system: "医療機関のシステム担当を補助します。",
        script: CLINIC,
    },
];

const TAX: &str = r"
= t T8010########¦T3120########¦T5200########
= f src/main/java/kaikei/tax/Rounding.java¦billing/src/jp/zei/InvoiceTotal.java¦core/java/seikyu/TaxLine.java
= q 請求書 S-20####¦伝票 4#####¦請求 K##-###
= sa 3円¦12円¦7円
= db kaikei_stg#¦acc-db-0#¦10.15.#.3#
= anken 案件 F-##¦改修 25-###¦PJ#### 
= tan 田辺主任¦小松係長¦原田さん
U 請求書の消費税が取引先の計算と合わないという指摘が来ています。[[I:%anken%]]として対応をお願いします。例は[[I:%q%]]、差は[[I:差額%sa%]]です。
A 承知しました。税額の計算箇所を確認します。
T read ¦ [[P:%f%]] ¦ java
A 明細ごとに切り捨ててから合計しています。制度上は、[[~D:明細ごとに四捨五入]]へ変えれば差は減ります。
U いえ、それも制度に反します。[[D:税率ごとに一回だけ端数処理]]です。
T web ¦ https://www.example.go.jp/invoice/hasu ¦ page ¦ <p>一の適格請求書につき税率ごとに一回。[[C:切り捨てか切り上げかは契約ごと]]に定める。</p>
A 確認しました。丸めの向きは契約ごとなのですね。契約の表に持たせます。
T sql ¦ select * from keiyaku limit 200 ¦ table
U その前に。[[C:発行済みの請求書は再計算しない]]でください。
A はい、新規のみにします。
T bash ¦ ./gradlew :tax:test ¦ gradle ¦ TaxLineTest > 混在 FAILED: [[E:軽減8%の合計が1円不足]]
A 軽減税率が混ざると1円ずれる試験が落ちました。直します。
U 登録番号は[[~I:T1234567890123]]のままになっていませんか？
T grep ¦ T1234 ¦ grep
A 見本の番号が一部に残っていました。
U 本物は[[I:%t%]]です。«帳票も全部直してください。¦全帳票お願いします。»
T read ¦ [[P:templates/seikyusho/main.jrxml]] ¦ yaml
T bash ¦ ./gradlew :report:run ¦ gradle ¦ [[E:JRFontNotFoundException: IPAexMincho]]
A 帳票の字体が試験機に無く、落ちました。[[D:字体は帳票に埋め込む]]ことにします。
U いいですね。試験機は[[~I:kaikei_dev]]を使っていますか。
A はい。
T sql ¦ select count(*) from seikyu ¦ table
U 古いので[[I:試験は%db%]]でお願いします。データは先週のものです。
A 切り替えました。件数も合います。
T bash ¦ python tools/compare.py --month 9 ¦ csv
U 経理からの要望です。[[C:値引き行はマイナス表示を△]]で。
A 対応しました。返還インボイスはどうしますか。
U 1万円未満は不要ですが、[[D:返還も金額によらず発行]]します。
T read ¦ src/main/java/kaikei/henkan/CreditNote.java ¦ java
T bash ¦ ./gradlew check ¦ gradle ¦ [[E:ConstraintViolation: uk_henkan_no]]
A 返還の番号が重複しました。採番規則の資料はありますか。
U [[P:docs/採番規則_改3.md]]です。
T read ¦ docs/採番規則_改3.md ¦ doc ¦ 返還の番号は[[I:先頭にHを付け8桁]]とする。
A 資料の規則に合わせました。
@01 U 電子保存は[[~D:PDFだけ保存]]の予定です。
@01 T web ¦ https://www.example.go.jp/denshi ¦ page
@01 A 検索要件のため、項目のデータも要るようです。
@01 U では[[D:PDFとXMLを対で保存]]にします。[[C:保存期間は10年]]で。
@01 A 保存先は[[P:/archive/invoice/%anken%]]にしました。
@2 U 電子保存は別件でやるので、[[C:電子保存には手を付けない]]でください。
@2 A 承知しました。控えだけ[[P:/archive/invoice/hikae]]に残します。
T bash ¦ ./tools/archive --check ¦ log
U 免税事業者からの仕入は経過措置がありますよね。
A はい。[[D:経過措置の割合は表で持つ]]ようにし、日付で切り替えます。
T read ¦ [[P:conf/keika_sochi.yaml]] ¦ yaml
T bash ¦ python tools/compare.py --month 10 ¦ csv ¦ 8,2025-10-31,比較,不一致,0,全件一致
A 10月分は全件一致しました。
U すばらしい。[[~I:確認は経理の村上さん]]です。
A 連絡します。
T bash ¦ ./gradlew build ¦ gradle ¦ 警告 [[E:署名の期限が残り9日]]
A 帳票の電子署名の期限が近いです。
U 更新を頼みました。なお村上さんは休職に入ったので、[[I:確認は%tan%]]へ。
A 宛先を変えました。
T bash ¦ git log --oneline -20 ¦ gitlog
U 切り替えは[[D:11月分の締めから適用]]です。
A 承知しました。[[C:締め前の3日間は変更しない]]という運用規則も守ります。
T read ¦ docs/運用.md ¦ doc
U よろしくお願いします。
A 準備は以上です。
";

const TRAVEL: &str = r#"
= n 3万8千人¦12万人¦6千人
= topic flight-delay-##¦noti.tour.??¦trip_alert_v#
= f src/push/scheduler.ts¦functions/notify/send.ts¦packages/notice/src/queue.ts
= pj tabi-prod-####¦trip-app-??¦tour-jp-###
= inc 障害 #10##¦INC-9##¦事故報告 0##
= hour 21時から7時¦22時から8時¦23時から6時
= sz 500件¦200件¦1000件
U やばい、昨日の夜中に通知が[[I:%n%]]に3回ずつ飛んだ😇 [[I:%inc%]]で対応中
A うわ、確認します。まず送信処理を見ますね。
T read ¦ [[P:%f%]] ¦ ts
T bash ¦ gcloud logging read --project %pj% ¦ log ¦ [[E:DEADLINE_EXCEEDED after 60s]] 再配信します
A 60秒で時間切れになり、キューが同じものを再配信していました。プロジェクトは[[I:%pj%]]で合っていますか？
U 合ってる。とりあえず[[C:本番から通知を一切送らない]]で、許可出すまで
A 了解です。対策は[[~D:時間切れを10分に延ばす]]のが早いです。
U それ根本じゃないよね
T bash ¦ npx vitest run src/push ¦ jest ¦ AssertionError: [[E:送信回数 3 (期待 1)]]
A ですね。[[D:送信前に通知IDを記録して弾く]]ようにします。延長はやめます。
U それそれ。あと1回の塊でかすぎない？ いま[[~I:1回5000件]]でしょ
T read ¦ src/push/batch.ts ¦ ts
A そうなっています。60秒では終わりませんね。
U [[I:1回%sz%]]に減らそう
A 減らしました。計測します。
T bash ¦ npm run bench:push ¦ csv
U あと夜中に鳴らすのが一番だめ。[[C:%hour%は鳴らさない]]、ただし欠航は例外
A 欠航だけ通します。時刻は端末の地域で見ますか？
U [[D:旅行先の現地時刻で判定]]！ ハワイで夜中に鳴ったら泣く
T read ¦ [[P:src/lib/quietHours.ts]] ¦ ts
T bash ¦ npx vitest run ¦ jest ¦ RangeError: [[E:Invalid time zone specified: Asia/Hanedaa]]
A 空港マスタに綴り違いがありました。マスタは[[P:data/airports.json]]です。
T bash ¦ head -c 9000 data/airports.json ¦ json
U うけるw 直しといて。トピック名は[[~I:flight-all]]だっけ
A 設定を見ます。
T bash ¦ cat firebase.json ¦ yaml ¦ topic: "[[I:%topic%]]" # 2025年夏から
A いまは別の名前でした。設定に書いてあるほうを使います。
U おけ。お詫びは[[~D:全員にプッシュでお詫び]]かなあ
A またプッシュだと火に油かもしれません…
T web ¦ https://support.example.jp/reviews ¦ page
U たしかに。[[D:お詫びはアプリ内のお知らせだけ]]にする。[[C:クーポンは配らない]]って社長が
A わかりました。文面を作ります。
T read ¦ docs/お詫び文案.md ¦ doc
@02 U iOSのほうは？ [[C:iOS16未満は対象外]]でいい
@02 A それなら要約通知が使えます。
@02 T bash ¦ xcodebuild -showsdks ¦ log
@1 U [[D:iOSは要約通知を使う]]ことになった
@1 T bash ¦ xcodebuild -showsdks ¦ log
@1 A 対応しました。
T bash ¦ npm run e2e ¦ log ¦ APNs [[E:410 Unregistered]] 1,882件
A 無効な端末が1,882件ありました。[[D:410が返った端末は即削除]]にします。
U いいね。監視もほしい
A [[P:monitoring/push_dup.yaml]]に重複率の警報を足しました。しきい値は？
U [[I:重複率0.1%]]で鳴らして
T read ¦ monitoring/push_dup.yaml ¦ yaml
T bash ¦ npm run build ¦ npm
U 再開は[[~D:明日の朝から再開]]
A 検証がまだ半分です。
T bash ¦ npm run replay -- --night ¦ log
U じゃあ[[D:社員だけ3日間試してから]]再開で
A そのほうが安心です。
T bash ¦ npm run e2e ¦ log ¦ [[E:quota exceeded: topicManagement]]
A 試験の回数制限に当たりました。明日の9時に戻ります。
U 了解。報告書は[[P:docs/postmortem/push-3x.md]]に。[[C:個人名は書かない]]でね
T read ¦ docs/postmortem/push-3x.md ¦ doc
A 書きました。当番の連絡先も載せました。
U ありがと！寝るわ
A おやすみなさい。
"#;

const CLINIC: &str = r"
= dept 整形外科¦小児科¦皮膚科
= f app/yoyaku/slots.py¦reserve/core/allocate.py¦clinic/booking.py
= pid 診察券 00####¦患者番号 8####¦受付 B-###
= min 15分¦10分¦20分
= host yoyaku-sv#¦10.8.#.2#¦clinic-ap#
= tel 0120-##4-###¦048-7##-2###¦075-3##-1###
= max 18名¦24名¦12名
U お世話になります、医療事務の永井です。%dept%の予約が同じ時間に重なることがあり、困っております。例としては[[I:%pid%]]の方です。[[C:患者さんのお名前は記録に残さない]]ようお願いいたします。
A 承知いたしました。番号のみで扱います。予約枠の処理を拝見します。
T read ¦ [[P:%f%]] ¦ py
T bash ¦ ssh %host% grep 重複 /var/log/yoyaku.log ¦ log ¦ [[E:枠重複 E-219 電話と網予約が同時]]
A 電話受付とネット予約が同時に入ると重なるようです。サーバは[[I:%host%]]ですね。
U はい、そうです。時間は[[~I:一枠30分]]でございます。
T sql ¦ select * from waku where ka = '%dept%' ¦ table
A 対策として、[[~D:ネット予約を昼間止める]]案が手早いです。
U それですと患者さんが困ります。[[D:電話受付も同じ画面から登録]]に変えるのはいかがでしょうか。
A そのほうが確実です。そのように進めます。
T bash ¦ pytest tests/yoyaku -q ¦ pytest ¦ E   [[E:sqlite3.OperationalError: database is locked]]
A 試験用の記録が固まりました。[[D:本番と同じPostgreSQLで試験]]するように直します。
T read ¦ tests/conftest.py ¦ py
U 先生に確認しましたら、4月から[[I:一枠%min%]]になっているそうです。申し訳ありません。
A いえ、助かります。設定は[[P:conf/waku_2025.yaml]]に直しました。
T read ¦ conf/waku_2025.yaml ¦ yaml
U 初診の方は[[C:初診は午前のみ]]でお願いします。それから[[I:一日%max%まで]]です。
A 両方とも条件に入れました。
T bash ¦ python -m yoyaku.simulate --days 30 ¦ csv
A 30日分の模擬では重なりは0件です。キャンセル待ちはどういたしましょう。
U 今は[[~D:先着順で電話をかける]]運用です。
T sql ¦ select * from machi order by uketsuke ¦ table
A 一人あたり平均4回お電話されていますね。
U 大変なので、[[D:空きが出たら文字で一斉に知らせる]]形に変えたいです。
A 承知しました。送信の費用も調べます。
T web ¦ https://sms.example.jp/price ¦ page ¦ <p>医療機関は[[C:本文に病名を含めないこと]]が利用条件です。</p>
A 利用条件に本文の決まりがありましたので、文面は日時のみにします。
T read ¦ [[P:templates/sms/aki.txt]] ¦ doc
U ありがとうございます。送信元の番号は[[I:%tel%]]です。
T bash ¦ python -m yoyaku.sms --test ¦ log ¦ [[E:送信拒否 21610 受信者が停止]]
A 受信を止めている方には届きません。[[D:届かない方だけ電話に回す]]一覧を作ります。
U 助かります。
@01 U 祝日の扱いですが、[[C:祝日の翌日は枠を増やさない]]でください。看護師が足りません。
@01 A 承知しました。
@01 T read ¦ [[P:data/shukujitsu.csv]] ¦ csv
@2 U それから、[[D:祝日は急患の枠だけ残す]]ようお願いします。
@2 T read ¦ [[P:data/shukujitsu.csv]] ¦ csv
@2 A そのように設定しました。
T bash ¦ pytest -q ¦ pytest ¦ FAILED tests/test_era.py - [[E:ValueError: 令和元年を解釈できません]]
A 生年月日の「元年」で落ちていました。修正済みです。
U 電子カルテとの連携は[[~D:毎晩まとめて連携]]です。
T bash ¦ tail -n 300 /var/log/karte-link.log ¦ log
A 当日の変更が翌朝まで伝わりませんね。
U そこも直したいです。[[D:変更のたびに即時で連携]]を希望します。
A 業者の仕様書が必要です。
U [[P:docs/karte/連携仕様_第4版.pdf]]にございます。[[C:カルテ側の設定は業者だけが触る]]決まりです。
T bash ¦ pdftotext docs/karte/連携仕様_第4版.pdf - ¦ doc ¦ 連携の口は[[I:ポート 1%port%]]、電文は一件ずつ。
= port 14##¦22##¦30##
A 仕様を確認しました。口の番号も載っていました。
T bash ¦ python -m yoyaku.karte --ping ¦ log
U 開始日は[[~D:来月1日の開始]]を考えております。
A 業者の作業日と重なりそうです。
T read ¦ docs/日程.md ¦ doc
U 業者と相談し、[[D:17日の休診日に切り替え]]となりました。
A 承知いたしました。
T bash ¦ python -m yoyaku.simulate --days 60 ¦ csv
A 60日分でも問題ありませんでした。当日の手順は[[P:docs/切替手順_当日.md]]です。
U 院長の承認も取れました。ありがとうございます。
A 当日もどうぞよろしくお願いいたします。
T bash ¦ ls -l docs ¦ ls
A 資料はすべて揃いました。
";
