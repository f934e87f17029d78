//! Owns the Japanese scripts about attendance closing, stock of a shop, a search of a wiki, and sensors of a factory.

use super::script::Scenario;
use super::words::Lang;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "ja-attendance-closing",
        lang: Lang::Ja,
        system: "あなたは勤怠システムの保守を手伝う開発エージェントです。",
        script: KINTAI,
    },
    Scenario {
        name: "ja-shop-stock",
        lang: Lang::Ja,
        system: "ECサイトの開発を手伝うアシスタント。ツールを使って作業する。",
        script: STOCK,
    },
    Scenario {
        name: "ja-wiki-search",
        lang: Lang::Ja,
        system: "社内ツールの開発を支援します。簡潔に答えてください。",
        script: WIKI,
    },
    Scenario {
        name: "ja-factory-sensors",
        lang: Lang::Ja,
        system: "組込みソフトウェアの開発エージェント。",
        script: FACTORY,
    },
];

const KINTAI: &str = r"
= ken KT-2###¦障害票0###¦REQ-8###
= sya 社員番号 10####¦社員番号 7####¦社員番号 A####
= src src/main/java/jp/kintai/close/MonthlyCloser.java¦batch/src/jp/kintai/ShimeBatch.java¦core/src/main/java/kintai/overtime/Calculator.java
= srv kintai-ap0#¦wrk-batch-#¦10.32.#.4#
= day 毎月15日¦毎月20日¦毎月末日
= jikan 午前2時40分¦午後11時15分¦午前4時5分
= keta 小数第2位¦小数第1位¦1分単位
= ver 5.2.#-p#¦4.19.#¦6.0.#-r#
= kai 47件¦112件¦23件
U お世話になっております。月次締め処理で残業時間が二重に計上される件、調査をお願いできますでしょうか。管理番号は[[I:%ken%]]です。なお、[[C:本番の勤怠データは参照のみ]]でお願いいたします。
A 承知いたしました。まず締め処理の本体を読みます。
T read ¦ [[P:%src%]] ¦ java
T bash ¦ ssh %srv% tail -n 400 /var/log/kintai/close.log ¦ log ¦ [[E:KTE-4071 締め済みの月に加算しました]] 対象=%sya%
A ログに締め済みの月への加算が出ています。対象者は[[I:%sya%]]です。深夜をまたぐ勤務で二回呼ばれているようです。
U ありがとうございます。「やはりそこですか」という感じです。バッチの実行は[[~I:毎日午前1時ちょうど]]だったと思います。
T bash ¦ crontab -l -u kintai ¦ yaml
A 対策としては、[[~D:締め処理の前に排他ロックを取る]]案がいちばん小さく済みます。
T bash ¦ ./gradlew :close:test ¦ gradle ¦ MonthlyCloserTest > 日跨ぎ FAILED: [[E:期待値 480 に対し 960]]
U ロックですと他部署のバッチが待たされるので困ります。«それよりも¦できれば»、[[D:勤務日単位の冪等キーを持たせる]]方向にしていただけますか。
A かしこまりました。ではロックはやめて、キーで重複を弾く形に変えます。
T read ¦ [[P:db/migration/V%n%__close_key.sql]] ¦ ddl
= n 20###¦31###¦45###
U あと念のためですが、[[C:給与連携のCSVの列順は変えない]]でください。給与側が列番号で読んでいるので。
A はい、列順は維持します。出力側の実装は[[P:src/main/java/jp/kintai/export/PayrollCsv.java]]ですね。
T read ¦ src/main/java/jp/kintai/export/PayrollCsv.java ¦ java
U そうです。先ほどの起動時刻ですが、確認したところ[[I:起動は%jikan%]]に変わっていました。失礼しました。
A 了解です。手順書もそちらに合わせます。
T sql ¦ select * from overtime where closed = true and updated_at > closed_at ¦ table ¦ 99 | 二重計上の合計 | [[I:影響は%kai%]] | NULL |
A 影響を受けた行の合計は表の最後のとおりです。修正は後続のスクリプトで行います。
U 丸めはどうなっていますか？
A 現状は途中で切り捨てています。[[D:端数処理は最後に一度だけ、%keta%]]とするのが就業規則にも合います。
U それで«お願いします¦進めてください»。締め日は拠点で違いますが、今回の対象拠点は[[C:締めは%day%で固定]]と考えてください。
T read ¦ docs/就業規則抜粋.md ¦ doc ¦ 36協定の警告は[[I:月42時間を超えた時点]]で本人と上長に通知する。
A 就業規則に警告の基準がありましたので、通知の閾値もこれに揃えます。
T bash ¦ ./gradlew :notify:test ¦ gradle ¦ java.time.DateTimeException: [[E:Invalid value for HourOfDay: 25]]
A 25時表記が通知側で落ちています。社内の「25時」は翌日1時の意味ですよね？
U はい、その通りです。[[D:25時表記は入力時に翌日へ変換]]で統一してください。
T grep ¦ HourOfDay ¦ grep
U リリースは[[~D:今週金曜の夜間]]を予定しています。
A 承知しました。«手順を作ります。¦準備を進めます。»
T read ¦ [[P:ops/手順書/締め処理リリース.md]] ¦ doc
T bash ¦ ./ops/deploy.sh --dry-run ¦ log ¦ [[E:ORA-01653 表領域 KINTAI_IDX を拡張できません]]
A 索引用の表領域が足りません。基盤チームへの依頼が必要です。
U 基盤の黒田さんに依頼しました。それもあり、リリースは[[D:来週水曜の21時開始]]に変更させてください。
A 変更しました。
T bash ¦ df -h && ls -l /u02/oradata ¦ ls
U 補足です。[[C:管理職の勤怠は対象外]]です。誤って直すと人事から怒られます。
A 抽出条件に役職区分を加えました。対象サーバは[[I:%srv%]]の1台のみで良いでしょうか。
U はい、1台のみです。承認者は[[~I:総務の永井課長]]です。
T bash ¦ ./gradlew check ¦ gradle
A 修正スクリプトは[[P:tools/fix_overtime/%ken%.groovy]]に置きました。事前に件数だけ出すモードがあります。
U 助かります。承認の件、異動があったため[[I:承認は遠藤部長代理]]にお願いします。
T bash ¦ groovy tools/fix_overtime/%ken%.groovy --count ¦ log
A 件数は先ほどの表と一致しました。戻し方は[[D:退避表からの書き戻し]]です。
U 問題ありません。[[I:版数は%ver%]]でお願いします。
A タグを付けました。
T bash ¦ git log --oneline -30 ¦ gitlog
U ありがとうございました。引き続きよろしくお願いいたします。
A こちらこそ、よろしくお願いいたします。
";

const STOCK: &str = r#"
= sku SKU-7####¦JAN 49#######¦品番 QX-####
= shop 梅田店¦大宮店¦博多店
= ep https://zaiko-??.example.jp/v2¦https://stock##.example.co.jp/api¦https://wms-#.example.jp/sync
= tok stk_live_????????¦tenant-????¦kid=????????
= fn sync/zaiko_puller.py¦jobs/stock_merge.py¦inventory/reconcile.py
= ttl 90秒¦5分¦30秒
= lim 毎分120回¦毎秒4回¦毎分45回
= slack zaiko-alert¦ec-当番¦在庫なんでも
U おつかれー。在庫がマイナスになる商品があるんだけど見てもらえる？ とりあえず[[I:%sku%]]が一番ひどい
A お疲れさまです。見てみます。連携処理のコードから読みますね。
T read ¦ [[P:%fn%]] ¦ py
T bash ¦ grep -n マイナス log/sync-*.log ¦ log ¦ [[E:在庫数が負です qty=-18]] %sku% %shop%
A %shop%の引き当てが二回走って -18 になっています。キャンセルと再注文が同時に来たときですね。
U あー%shop%ね。あそこPOS古いから。ちなみに[[C:POS側には絶対に書き込まないで]]、レジ止まる
A わかりました、読むだけにします。
T bash ¦ curl -s %ep%/items?shop=1 ¦ json
U 接続先は[[I:%ep%]]で合ってる？
A はい。認証は設定ファイルの[[P:config/stock/production.toml]]から取っています。
T read ¦ config/stock/production.toml ¦ yaml ¦ tenant = "[[I:%tok%]]"
A テナントの値も確認できました。対策は[[~D:注文側でトランザクション分離レベルを上げる]]のが楽そうです。
U それ前にやってデッドロック祭りになったw
T sql ¦ select * from orders where sku = '%sku%' ¦ table
A なるほど…では[[D:引き当てをイベントの追記だけにする]]形にして、残数は集計で出しましょう。さっきの案は取り下げます。
U いいね、それでいこう
T bash ¦ pytest tests/stock -q ¦ pytest ¦ E   [[E:IntegrityError: reservation_seq が重複]]
A 連番の採番がぶつかっています。[[D:採番はUUIDv7に変える]]ことにします、順序も保てるので。
U おけ。今は[[~I:10分キャッシュ]]だけど長い気がする
T bash ¦ redis-cli --bigkeys ¦ log
A セール中だと10分は長いですね。
U じゃあ[[I:キャッシュは%ttl%]]で。あと大事なの忘れてた、[[C:予約商品は在庫同期から外す]]こと
A 除外条件を足しました。判定は商品マスタの区分で行います。
T read ¦ [[P:catalog/flags/preorder.py]] ¦ py
T bash ¦ python -m sync.run --shop all --dry ¦ log ¦ HTTP 429 [[E:RATE_OVER_QUOTA]] retry-after=17
A 倉庫APIの制限に当たりました。上限はどこかに書いてありますか？
U «ベンダーのページにあったはず¦たしか仕様書にある»
T web ¦ https://wms.example.jp/docs/limits ¦ page ¦ <p>在庫照会は契約プランにより[[I:%lim%まで]]。超過時は429を返す。</p>
A ありました。この上限に合わせて間引きます。[[D:店舗ごとに時間をずらして取得]]すれば足ります。
U さすが。通知は[[~D:メールで担当に送る]]でいいかな
T bash ¦ python -m sync.run --shop all --dry ¦ log
U やっぱメール誰も見ないから[[D:通知は%slack%に流す]]で！
A 変更しました。夜間はまとめて1通にします。
@01 U セール中のリリースはだめだからね。[[C:セール期間のデプロイ禁止]]、カレンダー見て
@01 A 承知です。カレンダーを確認します。
@01 T bash ¦ cat ops/calendar.csv ¦ csv ¦ 3,2025-11-20,セール,[[I:11月20日正午から8日間]],全店,
@01 A 次のセールはカレンダーの3行目の期間ですね。その前に出します。
@2 U ところで[[C:Pythonは3.10のまま]]ね、サーバ更新は来期
@2 A わかりました。新しい構文は使わないようにします。
@2 T bash ¦ python --version && pip list ¦ log
T bash ¦ pytest -q ¦ pytest ¦ FAILED tests/test_allocate.py::test_bundle - [[E:KeyError: 'セット構成']]
A セット商品の構成が無い商品があり、落ちていました。構成表は[[P:data/master/bundle_items.csv]]です。
U それ石田さんが作ってるやつ。構成が無いセットは[[C:空のセットは販売停止扱い]]にして
T bash ¦ head -n 300 data/master/bundle_items.csv ¦ csv
A 対応しました。過去分の補正は[[~D:先月分からさかのぼる]]形で良いですか？
U いや棚卸のあとからでいい。[[D:補正は棚卸日以降だけ]]
T sql ¦ select shop, sum(qty) from stock_events group by shop ¦ table
A 補正後の差分は全店で0になりました。%shop%だけ[[I:差異3点]]残っています（現物確認待ち）。
U 現物は店長に聞いとく
T bash ¦ python -m tools.negative_check ¦ log
A マイナス在庫は0件です。監視の設定は[[P:monitoring/rules/negative_stock.yml]]に入れました。
U 神。«じゃあPR出しといて¦PRよろしく»
T bash ¦ gh pr create --fill ¦ log
A 出しました。レビューをお待ちしています。
"#;

const WIKI: &str = r#"
= idx wiki_pages_v#¦kb-2025-##¦docs_ja_##
= ana kuromoji の search モード¦sudachi の C モード¦bigram のみ
= node es-hot-#¦srch0#¦os-data-#
= heap 12GB¦24GB¦8GB
= dic dict/user_terms.csv¦config/analysis/shago.txt¦search/dic/naibu.csv
= tic SRCH-###¦WIKI-4##¦課題 #1##
= ext 58##¦61##¦44##
= ms 300ミリ秒¦450ミリ秒¦200ミリ秒
= rate 0.8##¦0.7##¦0.9##
U 社内Wikiの検索を作り直す。チケットは[[I:%tic%]]。前提として[[C:閲覧権限のないページを結果に出さない]]こと。これが崩れたら即中止。
A 了解。現状の索引定義と権限の持ち方から確認する。
T read ¦ [[P:internal/search/mapping.go]] ¦ go
T bash ¦ curl -s %node%:9200/_cat/indices?v ¦ table ¦ 12 | %idx% | 1.2M | yellow | 複製なし
A 現行の索引は[[I:%idx%]]で、複製が無い。日本語の解析器は標準のまま。
U だから「経費精算」で「精算」が引っかからないのか。
A そう思われる。解析器は[[~D:標準の standard のまま同義語で補う]]手もある。
T bash ¦ go test ./internal/search/... ¦ log ¦ --- FAIL: TestCompound: [[E:「経費精算」で 0 件]]
U 同義語の保守は続かない。[[D:解析器は%ana%]]でいく。
A では切り替える。社内用語の辞書はあるか。
U ある。[[P:%dic%]]。ただし[[C:辞書に人名を入れない]]という決まりがある。
T read ¦ %dic% ¦ csv
T bash ¦ ./bin/reindex --dry-run ¦ log ¦ [[E:mapper_parsing_exception: updated_at]] ページ番号 88213
A 更新日時が和暦で入っているページがある。3千件ほど。
U 昔の移行の名残。[[D:和暦は取り込み時に西暦へ直す]]。元のページは触らない。
T grep ¦ 令和 ¦ grep
A 変換は取り込み側に入れた。実装は[[P:internal/ingest/wareki.go]]。
T read ¦ internal/ingest/wareki.go ¦ go
U サーバには[[~I:ヒープ4GB]]しか割り当てていない。
T bash ¦ curl -s %node%:9200/_nodes/stats/jvm ¦ json ¦   {"id": 7, "node": "%node%", "gc": "old", "理由": "[[E:circuit_breaking_exception: parent]]"},
A 再索引の途中で遮断器が働いた。メモリが足りない。
U 増やした。[[I:今は%heap%]]。再実行してほしい。
T bash ¦ ./bin/reindex --target %idx%_new ¦ log
A 完了した。応答時間の目標はあるか。
U [[C:95パーセンタイルで%ms%以内]]。それより遅いと使われない。
T bash ¦ ./bin/bench --queries testdata/queries.txt ¦ metrics
A 目標は満たした。並び順は[[~D:更新日の新しい順]]にしてある。
U それだと議事録ばかり上に来る。[[D:関連度に閲覧数を軽く加味]]する形に。
A 変えた。議事録は種別で少し下げる。
T bash ¦ ./bin/eval --metric ndcg ¦ table ¦ 5 | 新しい並び | [[I:nDCG %rate%]] | 改善 | 評価者4名
A 評価値は表の5行目。旧検索より明らかに良い。
@02 U 添付ファイルも対象か？ [[C:添付はPDFだけ対象]]、Excelは入れない。
@02 A 了解。PDFの抽出だけ入れる。
@02 T bash ¦ ./bin/extract --type pdf --sample 200 ¦ log ¦ [[E:暗号化されたPDFは読めません]] 41件
@02 A 暗号化されたものは飛ばして一覧に残す。
@1 U 添付は当面対象外。[[C:本文だけを索引に入れる]]。
@1 T read ¦ internal/ingest/body.go ¦ go
@1 A 本文のみにした。
T read ¦ [[P:deploy/search/values-prod.yaml]] ¦ yaml
U 切り替えは[[~D:旧検索と1か月並行]]の予定。
A 並行の間は索引を二重に更新する。
T bash ¦ kubectl get pods -n search ¦ pods
U 並行はやめる。監査の都合で[[D:9月末に旧検索を停止]]して一気に切り替える。
A 了解。戻し手順は別名の付け替えだけで済む。別名は[[I:wiki_current_%tic%]]。
T bash ¦ curl -s %node%:9200/_alias ¦ json
U 権限の同期は何分おき？ [[~I:1時間おき]]だったはず。
T read ¦ [[P:internal/acl/syncer.go]] ¦ go
A コードではその設定だった。異動直後に見えてしまう時間が長い。
U 短くしよう。[[I:権限同期は5分間隔]]、それと[[D:権限は検索時にも再確認]]。
T bash ¦ go test ./... ¦ log
A 両方入れた。試験は全件通過。
U 運用の窓口は[[I:内線 %ext%]]のヘルプデスク。周知文も頼む。
T read ¦ docs/周知文.md ¦ doc
A 下書きを作った。確認を頼む。
U 読んだ。良いと思う。
A では公開の準備に入る。
"#;

const FACTORY: &str = r"
= dev SN-88####¦THB-0###¦ユニット ^-##
= fw fw 3.#.1#¦fw 2.9.##¦fw 4.1.#b
= reg 0x4?¦0x1?F¦0x7?
= line 第2ライン¦塗装ライン¦包装ライン
= src firmware/src/sensor/bus.rs¦fw/drivers/i2c_mux.rs¦edge/src/sampler.rs
= gw 192.168.4#.1##¦10.7#.0.2#¦172.16.#.8#
= temp 62度¦55度¦71度
= phs 71##¦65##¦80##
= mq plant/tokushima/+/raw¦fab#/line/#/env¦kojo/b#/sensor
U %line%の温湿度センサーが夜中に固まる件です。装置は[[I:%dev%]]、ファームは[[I:%fw%]]です。現場からは[[C:操業中はセンサーを再起動しない]]よう言われています。
A わかりました。ログと取得処理を確認します。
T read ¦ [[P:%src%]] ¦ rust
T bash ¦ ./tools/pull-log --device '%dev%' ¦ log ¦ [[E:I2C NACK addr=%reg% 連続32回]] 以後応答なし
A 夜間に NACK が続いたあと復帰していません。[[I:アドレスは%reg%]]です。
U 夜間は冷却水ポンプが動くので、ノイズかもしれませんね。
A 可能性はあります。対策として[[~D:ウォッチドッグで丸ごと再起動]]を考えました。
U 再起動は«ちょっと¦やはり»避けたいです。[[D:バスだけを9クロックで復旧]]させる方法はどうですか。
A できます。そちらにします。再起動はしません。
T bash ¦ cargo test -p sampler ¦ cargo ¦ test bus::recovers ... FAILED: [[E:timeout in BusState::Stuck]]
T read ¦ firmware/src/sensor/recover.rs ¦ rust
A 試験用の模擬バスが固まったままでした。模擬側を直して通りました。
U よかった。採取間隔は今[[~I:1秒周期]]です。
T bash ¦ ./tools/power --device '%dev%' ¦ csv
A その周期だと電池が4か月しか持ちません。仕様はありますか？
U [[C:電池は最低18か月もたせる]]のが条件です。
A それなら[[D:変化があるときだけ送信]]する方式にします。
U 採取も間引きましょう。[[I:採取は20秒ごと]]で十分だそうです。
T read ¦ [[P:firmware/config/sampling.toml]] ¦ yaml
T bash ¦ cargo build --release --target thumbv7em-none-eabihf ¦ cargo ¦ error: [[E:region `FLASH' overflowed by 2148 bytes]]
A フラッシュに入りません。ログの書式化が大きいです。[[D:ログはdefmtに置き換える]]と約9KB減ります。
U お願いします。メモリの割り付けは[[P:firmware/memory.x]]で決めています。[[C:ブートローダ領域には触らない]]でください。
T read ¦ firmware/memory.x ¦ rust
A 承知しました。領域は変えずに収まりました。
T bash ¦ cargo size --release ¦ log
U 中継機のアドレスは[[~I:192.168.0.5]]です。
T bash ¦ ping -c 20 gateway ¦ log
A 応答がありません。ネットワークが違うようです。
U すみません、設備更新で変わっていました。[[I:中継機は%gw%]]です。
A 届きました。配信先のトピックも確認させてください。
T bash ¦ mosquitto_sub -h %gw% -t '#' -C 400 ¦ log ¦ 購読: [[I:%mq%]] のみ許可されています
A 許可されたトピックは1つだけですね。これを既定値にします。
@01 U しきい値ですが、[[C:%temp%を超えたら即時通知]]です。まとめ送りは不可。
@01 A 即時の経路を別に用意します。
@01 T read ¦ firmware/src/alarm.rs ¦ rust
@2 U しきい値ですが、[[D:判定は中継機側で行う]]ことになりました。装置は生値だけ送ってください。
@2 A 装置側の判定を外しました。
@2 T read ¦ firmware/src/alarm.rs ¦ rust
T bash ¦ ./tools/soak --hours 12 ¦ log ¦ 7時間21分で [[E:HardFault at 0x0800_2c14]]
A 連続試験で落ちました。番地から見ると割り込み内の割り算です。
U ゼロ割りですか。
A はい、湿度の校正値が0のときです。校正値は[[P:data/calib/humidity_2025.csv]]から焼いています。
T bash ¦ head -n 200 data/calib/humidity_2025.csv ¦ csv
U 0は未校正の意味です。[[D:未校正なら欠測として送る]]でお願いします。
A そうしました。«再度12時間流します。¦連続試験をやり直します。»
T bash ¦ ./tools/soak --hours 12 ¦ log
U 更新の配り方は[[~D:全台を一晩で一斉に]]と聞いています。
A 台数は240台です。少し心配です。
T bash ¦ ./tools/fleet list ¦ table
U 相談しました。[[D:まず3台、翌週に残り]]とします。
A 安心しました。署名鍵はどれを使いますか。
U [[P:keys/ota/plant-b.pub]]に対応する鍵です。秘密鍵は私が持っています。[[C:署名は必ず私の端末で]]行います。
T bash ¦ ./tools/ota pack ¦ log
A 未署名の配布物を用意しました。
U 署名しました。現場の立ち会いは木下さん、[[I:PHS %phs%]]です。
A ありがとうございます。当日の手順をまとめます。
T read ¦ docs/更新手順.md ¦ doc
A まとめました。ご確認ください。
";
