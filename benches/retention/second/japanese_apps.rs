//! Japanese scripts about applications: a booking site, an iOS app, an attendance system, a town's web site.

pub(super) const SCRIPTS: &[&str] = &[BOOKING, IOS, ATTENDANCE, TOWN];

const BOOKING: &str = r"#name ja-booking-bug
#ext ts
#root packages/booking/src
#words room stay guest plan price calendar coupon vacancy review
#tools bash read_file grep
#noise code code grep log test json table build
S: あなたは旅館予約サイトの開発を手伝うエージェントです。シェルの実行、ファイルの閲覧・検索・編集ができます。回答は簡潔な日本語でお願いします。
U: おはようございます。⟨同じ部屋に二組の予約が入ってしまう¦満室のはずの日に予約が取れてしまう⟩事象が起きていて、先週だけで⟦i:⟨14件¦26件⟩の重複予約⟧が出ています。チケットは⟦i:YADO-⟪num4.t⟫⟧です。原因を調べてもらえますか。
A: おはようございます。まず空室確認から予約確定までの流れを追ってみます。
~
T: bash | docker compose logs booking-api --since 3h
@log 46
booking-api | ⟦e:⟨ER_LOCK_DEADLOCK: Deadlock found when trying to get lock¦VacancyConflictError: stock became -1⟩⟧ (plan=⟪num5⟫, retry=1)
booking-api |     at reserveRoom (⟦p:packages/booking/src/vacancy/⟨reserve_room.ts¦stock_ledger.ts⟩⟧:92:11)
@log 12
A: ここですね。再試行のときに空室数を読み直さず、古い値のまま確定しています。
U: なるほど。⟨ちなみに⟦c:宿側の管理画面には手を入れないで⟧ください、別会社さんの担当なので。¦あ、先に言っておくと⟦c:料金計算のロジックは変更禁止⟧です。旅行会社との契約があるので。⟩検証用のAPIは⟦-i#1:⟨ポート3100番¦ポート7070番⟩⟧で動いてます。
A: 承知しました。そこには触れずに進めます。
~
U: 直し方はどうします?
A: ⟨Redisで排他する手もありますが、障害時に鍵が残ると厄介です。⟦d:行ロックで在庫を引き当てる方式⟧にしたいと思います。¦アプリ側のロックだと台数が増えたときに効きません。なので⟦d:DBの一意制約で二重予約を弾く方針⟧で行きます。⟩
U: いいと思います。⟨予約の応答は⟦c:1.2秒以内¦繁忙期でも⟦c:800ミリ秒以下⟩⟧に収まるようにだけお願いします。遅いと離脱されちゃうので。
~
A> では実装します。
T: edit_file | ⟦p:packages/booking/migrations/⟨077_room_stock_lock.sql¦082_unique_stay_night.sql⟩⟧ ;; create unique index stay_night on stays (room_id, night);
ok
T: bash | npx vitest run vacancy
@test 30
 ✗ vacancy > 連泊の途中で満室になる
   ⟦e:⟨AssertionError: expected 'rejected' to be 'partial'¦Error: Timed out waiting for lock_wait 5000ms⟩⟧
@test 10
A: 連泊のケースだけ落ちます。一泊ずつ確保しているのが原因なので、まとめて確保する形に直します。
~
U: そうそう、リリースは⟦-d#2:⟨金曜の深夜¦来週火曜の早朝⟩⟧に入れるつもりです。
A: わかりました。切り戻しは⟦d:⟨yarn deploy:revert booking --step 1¦make rollback APP=booking⟩⟧で一発です。ステージングで試してあります。
~
U: 検証用のAPI、インフラさんが引っ越したそうです。⟨これからは⟦i#1:ポート3255番¦今は⟦i#1:ポート7181番⟩⟧になってます。前のはもう繋がりません。
A: 環境変数を書き換えました。疎通も問題ありません。
T: bash | curl -s localhost/health | jq .
@json 14
~
U: サポートの⟨木村¦小林⟩さんから、クーポンが二重に使われたって話も来てます。予約番号は⟦i:R⟪num8.r⟫⟧。
T: sql | select id, coupon, amount, used_at from coupon_uses order by used_at desc limit 25
@table 24
A: 根っこは同じでした。⟨ただ変更が大きくなるので、⟦d:クーポンの修正は別のプルリクに分け⟧ます。¦とはいえ影響範囲が違うので、⟦d:クーポン側は次のスプリントに回す⟧のがよさそうです。⟩
U: それでお願いします。
~
U: すみません、その日は⟨テレビで特集が組まれる¦全国旅行支援の受付が始まる⟩らしくて。⟨リリースは⟦d#2:月曜の朝6時に変更¦ずらして⟦d#2:木曜の午前4時から作業⟩⟧でお願いします。
A: 手順書の日時も直しておきました。
T: bash | git push origin HEAD && gh pr create --fill
remote: Resolving deltas: 100% (9/9), done.
⟦i:https://github.com/yadori/booking/pull/⟪num4.p⟫⟧
~
U: レビューで「無効化できるスイッチが欲しい」と言われました。⟨名前は⟦d:BOOKING_STRICT_STOCK¦環境変数は⟦d:ENABLE_NIGHT_LOCK⟩⟧にしましょう。
A: 追加しました。⟨まだできていないのは⟦d:団体予約での負荷試験¦残っているのは⟦d:キャンセル待ちとの組み合わせの確認⟩⟧です。
U: それは来週うちでやります。
~
U: ではほかに同じような書き方をしている箇所がないか、見ておいてもらえますか。
";

const IOS: &str = r#"#name ja-ios-notification
#ext swift
#root Sources/Kusuri
#words reminder dose patient schedule badge widget profile history alarm
#tools shell open_file search_code
#noise code code grep log test build list
S: あなたはiOSの服薬管理アプリを開発するチームのアシスタントです。Swiftで書かれています。ツールは shell、open_file、search_code、edit_file です。
U: お疲れさまです。⟨飲み忘れ通知が届かない¦朝の通知だけ来ない⟩という問い合わせが増えていて、ストアの評価も⟦i:⟨星3.1¦星2.8⟩まで落ち⟧ました。なんとかしたいです。
T: search_code | UNUserNotificationCenter
@grep 18
⟦p:Sources/Kusuri/Notify/⟨ReminderScheduler.swift¦DosePlanner.swift⟩⟧:141: center.add(request)
@grep 8
A: 登録している場所は一か所だけでした。件数の上限に当たっていないか確認します。
T: shell | log show --predicate 'subsystem == "jp.kusuri"' --last 1d
@log 34
error: ⟦e:⟨UNErrorDomain Code=1401 pending limit reached¦NSCocoaErrorDomain Code=4097 connection interrupted⟩⟧
@log 9
A: やはり登録の途中で失敗しています。薬の種類が多い人ほど起きやすいはずです。
~
U: そういうことか……。⟨対応OSは⟦-c#1:iOS 15以上¦一応⟦-c#1:iOS 14もサポート対象⟩⟧なのでよろしくお願いします。⟨それと⟦c:健康データをサーバーに送らない¦あと⟦c:薬の名前をログに出さない⟩⟧でください。個人情報の審査が厳しいので。
A: 承知しました。端末の中だけで完結させます。
~
A: 方針ですが、⟨全部を先に登録するのをやめて、⟦d:直近3日分だけを登録し直す¦薬ごとではなく⟦d:時刻ごとに通知を束ねる⟩⟧やり方にします。これなら上限に届きません。
U: いいですね。バックグラウンド更新は⟦-d#2:⟨サイレントプッシュで起こす¦位置情報の変化で起こす⟩⟧想定でしたっけ。
A: はい、いまの設計ではそうなっています。
~
T: edit_file | ⟦p:Sources/Kusuri/Notify/⟨RollingWindow.swift¦TimeSlotBundle.swift⟩⟧ ;; struct Window { let days: Int }
saved
T: shell | xcodebuild test -scheme Kusuri -destination 'platform=iOS Simulator,name=iPhone 15'
@test 26
Test Case '-[NotifyTests testDaylightShift]' failed: ⟦e:⟨XCTAssertEqual failed: ("07:00") is not equal to ("08:00")¦Fatal error: Index out of range: DoseSlot⟩⟧
@test 8
A: 海外に移動したときの時差の扱いで一件落ちています。直します。
~
U: アプリのサイズって今どれくらいですか? ⟨⟦c:60MBを超えると困る¦病院のWi-Fiが遅いので⟦c:45MBまで⟩⟧という話があって。
A: いまは38MBほどなので余裕があります。
T: shell | du -sh build/*.app && ls -la build
@list 20
~
U: 起こし方の件、審査に詳しい人に聞いたら今のやり方は落とされるそうです。⟨⟦d#2:BGAppRefreshTaskに切り替える¦代わりに⟦d#2:BGProcessingTaskを使う⟩⟧ことにしましょう。
A: 置き換えました。識別子は⟦i:jp.kusuri.⟨refresh.daily¦process.night⟩⟧です。
~
U: 企画から連絡で、古い端末は切っていいそうです。⟨なので⟦c#1:最低バージョンは17で¦今後は⟦c#1:16.4から上だけ見れば⟩⟧大丈夫です。
A: 助かります。互換用の分岐を消しました。
T: shell | swiftlint --quiet | tail -30
@grep 16
~
U: テスト配信は⟨TestFlightの⟦i:pharmacist-beta¦グループ⟦i:clinic-preview⟩⟧にだけ出してください。ビルド番号が決まったら教えてほしいです。
A: アップロードしました。ビルド番号は⟦i:⟪num5.b⟫⟧です。⟨証明書の期限が⟦i:8月19日まで¦プッシュ証明書の⟦i:失効が11月3日⟩⟧なので、早めの更新をおすすめします。
U: ありがとうございます、更新は総務に頼みます。
~
T: shell | xcrun simctl push booted jp.kusuri payload.json
@log 14
A: ⟨検証できていないのが一点、⟦d:Apple Watch単体での通知¦実機でしか見られないのが⟦d:集中モード中の挙動⟩⟧です。
U: 手元に端末があるので試してみます。薬剤師会の窓口は⟦i:⟨yakuzai@kusuri.example¦soudan@kusuri.example⟩⟧なので、リリースノートができたら送ってください。
~
A: リリースノートの下書きを⟦p:docs/⟨release_notes_ja.md¦relnote/next.md⟩⟧に置きました。
U: 確認します。⟨公開は⟦d:段階配信で7日かけて出す¦今回は⟦d:自動公開をオフにして手動で出す⟩⟧ことにします。前回一気に出して痛い目を見たので。
~
U: あとは古い翻訳ファイルの整理をお願いできますか。
"#;

const ATTENDANCE: &str = r"#name ja-attendance-refactor
#ext java
#root src/main/java/jp/kintai
#words shift overtime holiday employee approval calendar payroll stamp section
#tools bash read_file grep
#noise code code code grep test diff git build
S: あなたは勤怠管理システムの保守を担当するJavaエンジニアです。少しずつ動く状態を保ちながらリファクタリングを進めてください。
U: 残業計算のクラスが⟨4800¦3900⟩行あって誰も触れない状態なんです。⟦p:src/main/java/jp/kintai/⟨OvertimeCalc.java¦calc/ZangyoLogic.java⟩⟧なんですが、分割をお願いできますか。
T: bash | cloc src/main && git shortlog -sn -- src/main | head
@list 26
A: 拝見しました。法定内、法定外、深夜、休日の四つに分け、共通の時刻計算を下に置くのがよさそうです。
U: いいと思います。⟨前提として⟦c:計算結果は1円たりとも変えない¦絶対に守ってほしいのは⟦c:既存の給与明細と完全一致する⟩⟧ことです。労基署に出している数字なので。⟨Javaは⟦-c#1:8のまま上げない¦ちなみに⟦-c#1:Java 11縛り⟩⟧でお願いします、本番がそれなので。
A: 承知しました。
~
T: bash | mvn -q test -Dtest='*Overtime*'
@test 28
[ERROR] ⟦e:⟨ArithmeticException: Rounding necessary¦DateTimeException: Invalid value for HourOfDay: 25⟩⟧ at jp.kintai.calc.Night
@test 6
A: いまの時点で一件落ちるテストがあります。⟨端数処理¦日付をまたぐ勤務⟩の前提が本番と違うようです。
U: あー、それは前から放置されてたやつですね。⟨端数は⟦d:日ごとではなく月合計で丸める¦日またぎは⟦d:始業日の勤務として数える⟩⟧のが正です。就業規則の解釈がそうなので。
~
A> まず時刻の部分から切り出します。
T: edit_file | ⟦p:src/main/java/jp/kintai/time/⟨MinuteSpan.java¦WorkInterval.java⟩⟧ ;; public final class MinuteSpan { private final int from; private final int to; }
作成しました
T: bash | mvn -q compile
@build 10
⟦e:⟨error: incompatible types: possible lossy conversion from long to int¦error: cyclic inheritance involving HolidayRule⟩⟧
A: 型の不一致が出たので、境界で変換するようにしました。
~
U: 旧クラスの呼び出し口は⟦-d#2:⟨半年は残しておく¦とりあえず併存させる⟩⟧方向で。
A: では中身だけ新しいほうに委譲しておきます。
T: grep | OvertimeLegacyFacade
@grep 22
A: 呼び出し元は給与連携と管理画面の二つでした。
~
U: 比較用に去年の実データを匿名化したものを置きました。⟦p:/srv/kintai/⟨golden/2025_masked.csv¦compare/fy2025_anon.tsv⟩⟧です。⟨⟦c:この外に持ち出すのは禁止¦⟦c:社外のツールに貼らない⟩⟧でお願いしますね。
T: bash | java -jar tools/compare.jar --golden
@table 20
rows compared: ⟦i:⟨184,302¦96,517⟩⟧, differences: 3
A: 三件だけ差が出ました。⟨いずれも育休明けの時短勤務の方です。¦三件とも三月末の退職者です。⟩
U: ⟨それは旧システムの誤りで、⟦d:新しい結果のほうを正とする¦人事に確認したら⟦d:旧計算の誤りと認定⟩⟧とのことです。個別に精算するそうです。案件番号は⟦i:JINJI-⟪num4.j⟫⟧。
~
U: 朗報です。本番のミドルウェア更新が決まりまして、⟨⟦c#1:17の文法で書いて¦⟦c#1:21を前提にして⟩⟧ください。制限は撤廃です。
A: ありがとうございます。recordとswitch式でだいぶ短くなります。
T: bash | mvn -q verify | tail -40
@test 30
BUILD SUCCESS
~
A: 処理時間も測りました。⟦i:全社員分で⟨42秒¦1分18秒⟩⟧です。⟨以前は三分ほどかかっていました。¦以前の半分以下です。⟩
U: おお、早い。⟨夜間バッチは⟦c:午前2時半までに終わる¦締め日は⟦c:5分以内に計算が終わる⟩⟧必要があるので十分です。
~
U: 旧クラスの口の件ですが、連携先が全部切り替え済みだとわかりました。⟨⟦d#2:今回のリリースで消して¦なので⟦d#2:すぐ撤去して⟩⟧しまいましょう。
A: 削除しました。コミットは⟦i:⟪hex8.c⟫⟧です。
T: bash | git log --stat -3
@git 14
~
U: 突き合わせのコマンド、手順書に書いておきたいんですが。
A: ⟦d:⟨java -jar tools/compare.jar --from 2025-04 --strict¦./mvnw -Pcompare exec:java -Dmonth=2025-12⟩⟧で動きます。⟨宿題として残るのは⟦d:変形労働時間制のテストがない¦未対応なのは⟦d:裁量労働の深夜割増という⟩⟧点です。
U: それは労務と相談してからにします。相談会は⟦i:⟨6月24日の15時¦9月5日の13時半⟩⟧に入れました。
~
U: では新しいクラスのJavadocを見直してもらえますか。
";

const TOWN: &str = r#"#name ja-town-website
#ext html
#root site/pages
#words kosodate bousai gomi zeikin event form banner news map
#tools terminal read_file grep
#noise code doc grep json build list diff log
S: あなたは町役場の公式サイトの改修を支援するアシスタントです。静的サイトの編集、ビルド、リンク確認ができます。ですます調で答えてください。
U: こんにちは。⟨町¦市⟩のサイトをアクセシビリティ対応でリニューアルします。⟨監査で⟦i:問題が318箇所¦診断の結果⟦i:不適合が452件⟩⟧と言われてしまいまして……。まず何から見ればいいでしょう。
T: terminal | npx pa11y-ci --sitemap http://localhost/sitemap.xml
@log 30
⟦e:⟨WCAG2AA.Principle1.Guideline1_4.1_4_3.G18.Fail¦WCAG2AA.Principle3.Guideline3_1.H57.2⟩⟧ (211 pages)
@log 10
A: 件数は多いのですが、大半は共通テンプレートが原因です。⟦p:site/layouts/⟨_header.html¦base_frame.html⟩⟧を直せば一気に減らせます。
U: よかった。⟨⟦c:防災ページだけは一秒も止めない¦⟦c:ゴミ収集カレンダーのURLは変えない⟩⟧でください。広報紙に載せているので。⟨文章は⟦c:小学5年生が読める¦言葉づかいは⟦c:「やさしい日本語」に沿う⟩⟧ようにという方針です。
A: 承知しました。
~
U: 地図は⟦-d#1:⟨Googleマップの埋め込み¦画像の地図の流用⟩⟧で考えています。
A: ひとまずその前提で進めます。キーボード操作だけ気になるところです。
T: terminal | npm run build
@build 26
⟦e:⟨Error: duplicate id "main-nav" in 38 files¦Template render error: unclosed block "aside"⟩⟧
A: ビルドが一か所で止まりました。部品の重複が原因なので、⟨⟦d:ナビは一つの部品に統合¦サイドバーは廃止して⟦d:パンくずに一本化⟩⟧します。読み上げの順番も自然になります。
~
U: 公開日は⟦-i#2:⟨10月1日¦4月10日⟩⟧の予定です。首長の会見に合わせます。
A: 逆算すると、原稿の締め切りは二週間前ですね。
~
T: terminal | ./tools/contrast.sh site/css
@grep 22
A: 配色は⟦d:⟨リンクの青を#0B4F9Eに統一する¦見出しを#5A1F2Bに揃える⟩⟧とコントラスト比が基準を満たします。
U: デザイナーも了承済みです。⟨画像は⟦c:一枚200KBまで¦あと⟦c:動画の自動再生はなし⟩⟧でお願いします。高齢の方の回線が細いので。
~
U: 福祉課から意見が出ました。地図は目の見えない方に伝わらないので、⟨⟦d#1:住所と経路の文章に差し替え¦⟦d#1:国土地理院タイルで作り直し⟩⟧になりました。前の案は取り下げです。
A: 対象は23ページでした。順に差し替えます。
T: terminal | rg -l 'class="map"' site/pages
@list 18
~
T: edit_file | ⟦p:site/pages/⟨shisetsu/access.html¦kurashi/chizu.html⟩⟧ ;; <section aria-label="交通案内">
保存しました
A: 一枚目ができました。この形でよければ残りも揃えます。
U: ばっちりです。問い合わせフォームの通知先は⟦i:⟨koho@town.example¦madoguchi@city.example⟩⟧に変えておいてください。
~
T: terminal | curl -sI https://www.town.example/form | head
@log 10
⟦e:⟨HTTP/2 421 Misdirected Request¦x-waf-block: rule 949110⟩⟧
A: フォームの送信がWAFで弾かれています。サーバー会社への依頼が必要です。
U: 連絡しました。受付番号⟦i:S-⟪num7.s⟫⟧だそうです。契約プランは月⟦i:⟨18,700円¦32,450円⟩⟧でした、参考まで。
~
U: 会見がずれました。⟨公開は⟦i#2:10月20日の正午¦新しい公開日は⟦i#2:5月7日⟩⟧です。カレンダーの予定は消しておきます。
A: 準備期間が増えて助かります。公開作業は⟦d:⟨./deploy.sh --target prod --confirm town¦rsync -a --delete-after dist/ web01:/var/www/city⟩⟧の一行です。
~
A: 点検の結果、残りは⟦i:⟨7件¦12件⟩だけ⟧になりました。いずれもPDFです。⟨⟦d:古いPDFは議会事務局に作り直しを依頼¦PDFについては⟦d:総務課にテキスト版を用意⟩⟧していただく必要があります。
U: 伝えておきます。⟨試験公開は⟦i:https://stg.town.example/r8¦確認用は⟦i:https://preview.city.example/a11y⟩⟧ですよね。
A: はい、職員の方だけが見られる状態です。
~
U: では新着情報のページの文言を一緒に見直していきましょう。
"#;
