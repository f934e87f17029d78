//! Owns the Japanese scripts about a city's web site, books of a library, a stand at a fair, and reading of slips.

use super::script::Scenario;
use super::words::Lang;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "ja-city-site",
        lang: Lang::Ja,
        system: "あなたはウェブ制作を支援するアシスタントです。",
        script: CITY,
    },
    Scenario {
        name: "ja-library-books",
        lang: Lang::Ja,
        system: "データ移行を担当する補助者として作業してください。",
        script: LIBRARY,
    },
    Scenario {
        name: "ja-trade-fair",
        lang: Lang::Ja,
        system: "総務の仕事を手伝うエージェント。ファイルとウェブを読める。",
        script: FAIR,
    },
    Scenario {
        name: "ja-slip-reading", lang: Lang::Ja, system: "機械学習の実験を手伝う。", script: SLIPS
    },
];

const CITY: &str = r#"
= page src/pages/bousai/index.tsx¦app/kosodate/page.tsx¦src/views/gomi/Calendar.tsx
= kei 委託契約 R7-###¦仕様書 第##号¦契約番号 2025-###
= font 16px¦18px¦17px
= url https://www.city-????.example.jp¦https://kouhou##.example.lg.jp¦https://test-####.example.lg.jp
= ga G-^^#^##¦UA-8####-2¦mtm-###
= lang ベトナム語¦ネパール語¦ポルトガル語
= col 紺色の 1a3?5c¦深緑の 0e5?3b¦えんじの 7b2?3a
= cms v6.#.2¦2024.#¦r1##
U はじめまして、広報課の平野と申します。市のサイトの改修をお願いします。契約は[[I:%kei%]]です。まず大前提として、[[C:JIS X 8341-3のAAに適合]]することが求められています。
A はじめまして。よろしくお願いいたします。対象ページから確認します。
T read ¦ [[P:%page%]] ¦ ts
T bash ¦ npx pa11y %url% --reporter cli ¦ log ¦ [[E:H37 画像に代替テキストがありません]] 38か所
A 代替テキストの無い画像が38か所あります。まずここから直しましょう。
U お願いします。確認用のサイトは[[I:%url%]]です。«外部には出さないでください。¦関係者限りでお願いします。»
T bash ¦ npm run build ¦ npm
A 文字の大きさですが、基準は[[~I:本文14px]]のままでよいでしょうか。
U 高齢の方から小さいと言われておりまして、[[I:本文は%font%以上]]にしてください。
A 変更します。変数は[[P:src/styles/tokens.scss]]にまとまっていました。
T read ¦ src/styles/tokens.scss ¦ ts
U あと、[[C:市章の色と比率は変えない]]でください。条例で決まっています。
A 承知しました。見出しの色は[[~D:市章と同じ青]]を使う予定です。
T bash ¦ npx vitest run ¦ jest ¦ AssertionError: [[E:コントラスト比 2.9 が 4.5 未満]]
A 試験で見出しのコントラストが足りないと出ました。市章の青では読みにくいようです。
U では[[D:見出しは%col%]]でお願いします。課長の了解も得ています。
A ありがとうございます。反映しました。
T bash ¦ git diff --stat ¦ diff
U 災害時に重くなったことがありまして、何か対策はできますか。
A [[D:災害時は静的な軽量版へ切り替え]]る仕組みを提案します。画像無しで30KBほどです。
U それは助かります！ ただ、[[C:切り替えは危機管理課だけ]]ができるようにしてください。
T read ¦ [[P:functions/emergency/switch.ts]] ¦ ts
A 権限の判定を入れました。職員認証の応答で一つ問題があります。
T bash ¦ curl -s %url%/api/auth/me ¦ json ¦   {"id": 0, "状態": "失敗", "理由": "[[E:SAML_CLOCK_SKEW 312秒]]"},
A 認証サーバの時計が5分ほどずれています。情報システム課の作業が要ります。
U 連絡しました。明日直るそうです。«外国語ページについてですが、¦多言語の件ですが、»[[~D:機械翻訳だけで公開]]と考えていました。
A 行政文書では誤訳の心配があります。
T web ¦ https://www.example.go.jp/tagengo/guideline ¦ page ¦ <p>防災情報は[[C:やさしい日本語を必ず併記]]することが望ましい。</p>
U なるほど、指針に従いましょう。翻訳は[[D:%lang%だけ人手で確認]]してから出すことにします。
A 承知しました。併記の欄も設けます。
T read ¦ [[P:content/i18n/glossary.csv]] ¦ csv
T bash ¦ npx playwright test ¦ log ¦ [[E:navigation to /kinkyu timed out]]
A 緊急ページの試験だけ時間切れです。古い地図の読み込みが原因でした。
U 地図は[[D:国土地理院のタイルに統一]]してください。費用もかかりませんし。
A 置き換えました。
@01 U CMSですが、[[~I:版は5.8]]だったと思います。
@01 T bash ¦ cat cms/VERSION && tail -n 200 cms/CHANGES ¦ doc ¦ 現在の版: [[I:CMS %cms%]]（保守期限 2027年3月）
@01 A 実際には更新済みでした。版はファイルの記載どおりに扱います。
@2 U CMSは更新しません。[[C:CMSの版上げは来年度]]です。
@2 T bash ¦ cat cms/VERSION ¦ doc
@2 A 承知しました。
T bash ¦ npx lighthouse %url% ¦ json
U アクセス解析の番号は[[I:%ga%]]です。[[C:個人を追跡する機能は切る]]ようお願いします。
A 匿名化して入れました。設定は[[P:src/lib/analytics.ts]]です。
T read ¦ src/lib/analytics.ts ¦ ts
U 公開日は[[~D:4月1日の午前0時]]と申しておりましたが…
A はい、その予定で準備しています。
T bash ¦ ./scripts/linkcheck.sh ¦ log
U 年度初めは問い合わせが多いので、[[D:公開は4月14日の朝6時]]に延ばします。
A 予定を直しました。公開の判定会議の資料も用意します。
T read ¦ docs/判定会議.md ¦ doc
U 庁内の問い合わせは[[I:内線 %naisen%]]、私までお願いします。
= naisen 23##¦31##¦27##
A 承知いたしました。
T bash ¦ npm run build ¦ npm
A 最終の組み立てまで終わりました。
"#;

const LIBRARY: &str = r"
= src dump/zousho_2024.csv¦old_system/export_all.tsv¦移行元/shoshi.csv
= n 18万4千冊¦32万冊¦9万7千冊
= isbn 978-4-####-###1-#¦書誌番号 00####¦資料番号 11#####
= tool etl/convert.py¦migrate/marc_map.py¦ikou/henkan.py
= kan 北分館¦駅前館¦移動図書館
= code 38#.1¦9##.6¦21#.7
= dbh tosho-db#¦10.2#.1.5#¦lib-stg-0#
= lim 15冊¦20冊¦12冊
U 図書館システムの入れ替えで、蔵書データを移す。元データは[[P:%src%]]。全部で[[I:%n%]]ある。[[C:利用者の貸出履歴は移さない]]。これは条例で決まっている。
A 了解しました。まず元データの形を見ます。
T bash ¦ head -n 400 %src% ¦ csv ¦ 3,2025-01-06,書誌,文字化け,0,外字が含まれる
T read ¦ [[P:%tool%]] ¦ py
A 外字が入っています。文字コードは[[~D:Shift_JISとして読む]]のでよさそうです。
T bash ¦ python %tool% --check ¦ log ¦ [[E:UnicodeDecodeError: 0xfbfc]] 行 40218
U いや、旧機はIBM拡張が混じっている。[[D:CP932で読んで外字表で直す]]。
A ではそうします。外字表はどこですか。
U [[P:ref/gaiji_table.xlsx]]。片山さんが手で作った労作だから丁寧に扱って。
T bash ¦ python -m tools.xlsx2csv ref/gaiji_table.xlsx ¦ csv
A 412字ありました。未登録が6字だけ残ります。
U [[D:未登録の字は〓で置く]]。あとで司書が直す。
T bash ¦ python %tool% --limit 5000 ¦ log ¦ [[E:書誌重複: %isbn%]] 3件が同一
A 同じ書誌が3件ありました。例は[[I:%isbn%]]です。統合しますか。
U 統合は«慎重に¦気をつけて»。[[C:装丁が違う版は統合しない]]。
A 版の欄も比べるようにします。
T sql ¦ select isbn, count(*) from shoshi group by isbn having count(*) > 1 ¦ table
U 移行先の試験機は[[~I:lib-test-9]]を使って。
T bash ¦ psql -h lib-test -l ¦ log ¦ [[E:FATAL: pg_hba.conf に該当なし]]
A つながりません。許可されていないようです。
U そっちは廃止になったらしい。[[I:移行先は%dbh%]]で頼む。
A つながりました。分類の扱いを教えてください。
T sql ¦ select bunrui, count(*) from shoshi group by 1 ¦ table
U 日本十進分類の[[~D:9版のまま移す]]つもり。
T web ¦ https://www.example.or.jp/ndc10 ¦ page
A 新しいシステムは10版が前提のようです。
U 館長に聞いた。[[D:10版に付け替える]]。郷土資料だけは独自分類で、[[I:郷土は%code%]]に入れる。
A 対応表を作ります。置き場所は[[P:ref/ndc9_to_10.csv]]にします。
T bash ¦ wc -l ref/*.csv ¦ ls
T bash ¦ pytest tests -q ¦ pytest ¦ E   [[E:巻次 '上' を整数にできません]]
A 巻次が「上・下」の本で落ちました。[[D:巻次は文字列のまま持つ]]ことにします。
U それでいい。並べ替え用の数字は別に持たせて。
T read ¦ migrate/volume.py ¦ py
@02 U 分館の順番だが、[[C:%kan%は最後に移す]]。工事中で本が箱の中だ。
@02 A 順番を変えました。
@02 T bash ¦ cat migrate/order.yaml ¦ yaml
@1 U 分館の順番だが、[[D:%kan%は現物確認のあと]]に回す。
@1 T bash ¦ cat migrate/order.yaml ¦ yaml
@1 A 後回しにしました。
U 貸出の上限は新しい規則で[[I:一人%lim%まで]]。設定にも入れておいて。
T read ¦ [[P:config/circulation.toml]] ¦ yaml
A 入れました。予約の引き継ぎはどうしますか。
U そこは[[~D:予約は全部移す]]。
T sql ¦ select * from yoyaku where jotai = '待ち' ¦ table ¦ 77 | 受取期限切れの予約 | 2,918 | 要確認 | 遠藤
A 期限切れの予約が3千件近くあります。
U じゃあ変える。[[D:有効な予約だけ引き継ぐ]]。
A 期限内のものに絞りました。
T bash ¦ python %tool% --all ¦ log ¦ 処理時間 [[I:6時間48分]] 警告 1,204
A 全件の変換は7時間弱でした。休館日に収まります。
U 休館は[[~I:第2月曜]]だけど、«足りる？¦間に合う？»
T bash ¦ python tools/verify.py ¦ log
A 検証も含めると10時間ほどで、1日では余裕がありません。
U 特別整理期間を使おう。[[I:2月3日から5日まで]]休める。
A 十分です。
T read ¦ [[P:docs/移行計画_最終.md]] ¦ doc
U 守ってほしいこと: [[C:旧システムは半年間止めない]]。照会に使う。
A 計画に書きました。戻す判断はいつしますか。
U [[D:初日の正午に続行か判断]]する。責任者は館長。
T bash ¦ python tools/report.py ¦ csv
A 報告用の表ができました。
U ごくろうさま。
A 次は本番前の通し稽古です。
";

const FAIR: &str = r#"
= booth 小間番号 ^-##¦ブース W#-1#¦東#ホール E##
= fair 産業機器展¦食品開発展¦地域物産フェア
= yosan 285万円¦340万円¦198万円
= hotel 見積 H-####¦予約番号 ^^####¦照会 77####
= yen 46万8千円¦52万3千円¦38万1千円
= kg 120kg¦85kg¦210kg
= tel 03-5###-2###¦06-6###-1###¦092-4##-3###
= dir 共有/展示会/2025秋¦資料/fair2025¦営業/イベント/R7
U %fair%の準備、手伝ってもらえますか〜。去年の担当が辞めちゃって資料がばらばらで💦 場所は[[I:%booth%]]です。
A もちろんです。まず共有フォルダを見てみますね。
T bash ¦ ls -lR %dir% ¦ ls
T read ¦ [[P:%dir%/出展要項.md]] ¦ doc ¦ - [[C:装飾は2.7メートルまで]]とする。超えた場合は撤去。
A 要項に高さの制限がありました。去年の什器だと少し超えます。
U え、まじですか。危なかった…。予算は[[~I:予算250万円]]って聞いてます。
T bash ¦ cat %dir%/見積一覧.csv ¦ csv
A 見積を足すと今のままで260万円ほどになります。
U 部長に掛け合ったら[[I:上限%yosan%]]になりました！ 税込です。
A よかったです。«では割り振りを作ります。¦その枠で組み直します。»
T web ¦ https://www.example-fair.jp/exhibitors/rules ¦ page ¦ <p>電気工事の申込は[[D:二次側工事は指定業者に依頼]]のこと。</p>
U 電気はその通りにしましょう。社長から一つ、[[C:競合の名前を配布物に出さない]]でって。
A 承知しました。比較表は「当社従来品」との比較にします。
T read ¦ [[P:%dir%/チラシ原稿_v7.md]] ¦ doc
U 印刷は[[~D:いつもの東洋印刷に頼む]]予定です。
T bash ¦ python tools/mitsumori.py --item 印刷 ¦ table ¦ 4 | 東洋印刷 | 納期 | 12営業日 | 間に合わない
A 見積表を見ると、納期が12営業日で間に合いません。
U ありゃ。じゃあ[[D:印刷はネット入稿に切り替え]]ましょう。部数は2千。
A 入稿データを確認します。
T bash ¦ ./tools/preflight チラシ.pdf ¦ log ¦ [[E:RGB画像が5点残っています]] 塗り足し不足
A 画像がRGBのままでした。変換と塗り足しが必要です。
U デザイナーの坂口さんに投げときますね。宿は7名分で[[I:%hotel%]]。
T read ¦ [[P:%dir%/宿泊_見積.csv]] ¦ csv
A 宿泊費は合計[[I:%yen%]]でした。二名だけ別館です。
U 女性陣を本館にしてあげてください。あと[[C:上原さんは禁煙の低層階]]で。足を痛めてるので。
A 備考に入れました。
T web ¦ https://hotel.example.jp/group/form ¦ page
U 実機は持ってく？ 去年は[[~D:実機を2台展示]]したけど。
T bash ¦ cat %dir%/什器_重量.csv ¦ csv ¦ 9,2025-08-01,実機,床耐荷重,[[I:実機1台%kg%]],要養生
A 什器の表に重量がありました。床の養生と搬入の人手が要ります。
U うーん、[[D:実機は1台と模型にする]]でいきましょう。運びきれない。
A それなら4トン車1台で済みます。
T bash ¦ python tools/route.py --truck ¦ json ¦   {"id": 2, "状態": "失敗", "理由": "[[E:搬入口Cは車高3.2m制限]]"},
A 経路の計算で、搬入口の高さ制限に引っかかりました。
U [[D:搬入はD口、朝7時台]]で申請し直します。
@01 U お弁当とか飲み物は？ [[C:試食はアレルギー表示を必ず]]って保健所から。
@01 A 表示の札を作りました。[[P:%dir%/アレルギー札.docx]]です。
@01 T bash ¦ ls -l %dir% ¦ ls
@2 U あ、[[C:ノベルティは単価200円以内]]で。
@2 A 候補を三つ選びました。[[P:%dir%/ノベルティ候補.xlsx]]に入れています。
@2 T bash ¦ ls -l %dir% ¦ ls
T bash ¦ python tools/form_check.py ¦ log ¦ 申請エラー [[E:FRM-208 防炎証明の添付なし]]
A 申請で防炎証明が足りないと出ました。
U 倉庫にあるはず！ 村上さんに聞きます。当日の[[~I:責任者は松尾さん]]です。
T read ¦ %dir%/当日シフト.md ¦ doc
A シフト表に入れました。名札の数も確認します。
T bash ¦ cat %dir%/名札.csv ¦ csv
U 松尾さん出張が入っちゃって、[[I:責任者は清水主任]]に代わりました。
A 差し替えました。名刺情報の集め方はどうしますか。
U [[D:名刺はその場で読み取り]]アプリで。紙のアンケートはやめます。[[C:取得した名刺は30日で消す]]、個人情報なので。
A 消す日を予定表に入れました。
T web ¦ https://app.example.jp/card/help ¦ page
U 緊急連絡は主催者の事務局、[[I:%tel%]]です。
A 控えました。行程表の最終版は[[P:%dir%/行程表_確定.pdf]]にします。
T bash ¦ python tools/make_schedule.py ¦ log
U わーい、間に合いそう。ありがとうございます！
A 前日にもう一度、持ち物を確認しましょう。
"#;

const SLIPS: &str = r"
= data datasets/slips_v#¦/mnt/nas/denpyo/2025q#¦s3://ocr-lab/slips-##
= run run-????-??¦exp0##b¦mlf-??????
= acc 97.#%¦96.#4%¦98.1#%
= gpu gpu-node-0#¦a100-#¦ws-ocr#
= lr 3e-5¦8e-5¦1.5e-4
= ck ckpt/step_4#000.pt¦models/best_????.safetensors¦out/ep1#.ckpt
= cl 得意先 K-###¦荷主コード 5###¦支店 0##
= sz 1280×900¦1024×1448¦960×1360
U 手書き伝票の読み取りモデルを学習し直したい。データは[[P:%data%]]。[[C:画像を社外のAPIに送らない]]こと。住所が写っている。
A わかった。まずデータの中身を見る。
T bash ¦ python -m ocr.stats %data% ¦ csv
T read ¦ [[P:ocr/data/loader.py]] ¦ py
A 画像の大きさがまちまちだ。現状は[[~D:一律512角に縮小]]している。
U それだと金額欄がつぶれる。[[D:%sz%に余白を足して揃える]]。
A なるほど、比率を保つほうが良い。
T bash ¦ pytest tests/ocr -q ¦ pytest ¦ E   [[E:RuntimeError: stack expects each tensor to be equal size]]
A 揃え方を変えたので束ねる処理が落ちた。直す。
T read ¦ ocr/data/collate.py ¦ py
U 計算機は[[I:%gpu%]]を使って。ただし[[C:平日昼はGPUを2枚まで]]。他の班も使う。
A 承知。«学習を始める。¦夜に全枚数で回す。»
T bash ¦ python -m ocr.train --config base ¦ log ¦ step 1200 [[E:loss=nan grad_norm=inf]]
A 1200歩で発散した。設定は[[~I:学習率 1e-3]]だった。
U 高すぎる。
T bash ¦ python -m ocr.lr_find ¦ csv
A 探索の結果から[[I:学習率は%lr%]]に下げる。混合精度も[[D:fp16をやめてbf16にする]]。
U 任せる。
T bash ¦ python -m ocr.train --config base --resume ¦ log ¦ 実験名 [[I:%run%]] を開始
A 今度は安定している。途中の記録は同じ実験名で追える。
T bash ¦ nvidia-smi dmon -c 200 ¦ metrics
U 評価は文字単位？
A 今は[[~D:文字誤り率だけで評価]]している。
U 業務では1文字でも違えば手直しだ。[[D:欄ごとの完全一致で評価]]する。合格は[[C:金額欄は誤り0.5%以下]]。
T read ¦ [[P:ocr/eval/field_match.py]] ¦ py
A 評価を書き換えた。
T bash ¦ python -m ocr.eval --split valid ¦ table ¦ 8 | %cl% | 極端に低い | 61.2 | 複写の二枚目
A 表の8行目、[[I:%cl%]]だけ極端に悪い。複写紙の二枚目らしい。
U あそこは青い複写だから薄い。[[D:青色だけ強調する前処理]]を入れよう。
T read ¦ ocr/prep/color.py ¦ py
T bash ¦ python -m ocr.eval --split valid ¦ log ¦ [[E:正解データ不整合: 欄「摘要」が空]] 214枚
A 正解が空の欄が214枚ある。除くか？
U 除かない。[[C:空欄は空欄として正解]]に数える。現場では空欄も意味がある。
A わかった。数え方を直す。
@01 U 正解付けは[[~I:外注の3名]]が担当だったか。
@01 T read ¦ [[P:docs/annotation/体制.md]] ¦ doc
@01 A 文書にはそう書いてある。
@01 U いや思い出した、今は[[I:正解付けは社内の吉岡班]]。
@01 A 質問先をそちらに直した。
@2 U 正解付けの規則は[[P:docs/annotation/規則集.md]]。[[D:二名が一致した欄だけ使う]]。
@2 T read ¦ docs/annotation/規則集.md ¦ doc
@2 A 一致率は94%なので量は十分だ。
T bash ¦ python -m ocr.train --config color ¦ log
U 推論の速さは？ 現場の機械は古い。[[C:1枚2秒以内、GPUなし]]。
T bash ¦ python -m ocr.bench --device cpu ¦ csv
A いまは3.4秒かかる。[[D:int8に量子化して枝刈りなし]]なら1.6秒になる見込み。
U それで。精度は落ちない？
T bash ¦ python -m ocr.quantize ¦ log ¦ 変換失敗 [[E:Unsupported op: GridSample]]
A 一つ変換できない演算があった。双線形の拡大に置き換える。
T read ¦ ocr/model/head.py ¦ py
T bash ¦ python -m ocr.eval --split test ¦ table ¦ 1 | 試験用 | 全欄 | [[I:一致率%acc%]] | 量子化後
A 量子化後の一致率は表のとおりで、合格だ。重みは[[P:%ck%]]。
U 配るのは[[~D:Dockerで配布]]のつもり。
A 了解。
T bash ¦ docker build -t ocr-slip . ¦ log
U 現場はWindowsだけだった。[[D:ONNXと単体exeで配る]]。
A そうする。
T bash ¦ pyinstaller ocr.spec ¦ log
U 失敗した伝票は[[P:D:/denpyo/ng]]に残すこと。
A 入れた。
T bash ¦ pytest -q ¦ pytest
A 全部通った。説明書を書いて終わりにする。
";
