//! Japanese scripts about data: sales figures, the training of an OCR model, a piece of research.

pub(super) const SCRIPTS: &[&str] = &[SALES, OCR, SURVEY];

const SALES: &str = r"#name ja-sales-pipeline
#ext sql
#root models/mart
#words store sale item stock receipt region member campaign return
#tools bash read_file grep
#noise table table code log grep json test list
S: あなたは小売チェーンのデータ基盤を担当するエージェントです。dbtとBigQueryを使います。bash、read_file、grep、edit_file、sql が使えます。
U: 売上ダッシュボードの数字が経理と合わないんです。⟨先月分で⟦i:2,318万円のずれ¦二月だけで⟦i:914万円足りない⟩⟧らしくて。調べてもらえますか。
T: grep | sum(amount)
@grep 14
⟦p:models/mart/⟨fct_daily_sales.sql¦agg_store_month.sql⟩⟧:48:  sum(amount) as net_sales
@grep 9
A: 返品の扱いが怪しいですね。返品行が別テーブルに移った時期と、ずれ始めた時期が重なります。
~
T: bash | dbt run --select mart --target dev
@log 30
Database Error in model: ⟦e:⟨Resources exceeded during query execution: UDF out of memory¦No matching signature for operator = for argument types: STRING, INT64⟩⟧
@log 6
A: 途中で落ちるモデルがあり、前日の結果が残ったままになっていました。これが原因の一つです。
U: なるほど……。あらかじめ伝えておくと、⟨⟦c:本番データセットへの書き込みは禁止¦⟦c:会員の氏名や電話番号は閲覧NG⟩⟧です。⟨クエリの課金も⟦c:月15万円まで¦スキャン量は⟦c:1日2TBが上限⟩⟧と部長に言われてます。
A: 承知しました。開発用のデータセットだけで確認します。
~
U: 集計の締めは⟦-d#1:⟨毎朝7時¦深夜0時ちょうど⟩⟧で回してます。
A: 店舗からの到着が遅れると、その回から漏れますね。遅れの分布を見てみます。
T: sql | select store_id, max(arrival_delay_min) from receipts_log group by 1 order by 2 desc limit 30
@table 28
A: ⟦i:⟨那覇店だけ94分遅れ¦札幌駅前店が最大131分⟩⟧で、ほかは30分以内に収まっています。
~
U: 返品はどう計上するのがいいですかね。
A: ⟨会計の考え方に合わせて⟦d:返品は返品日の売上から引く¦比較しやすさを考えると⟦d:返品は元の販売日に戻して差し引く⟩⟧のがよいと思います。経理の帳票もその形でした。
U: 経理の⟨岡田¦三浦⟩さんも同じ意見でした。それで。
~
A> モデルを直します。
T: edit_file | ⟦p:models/staging/⟨stg_returns_signed.sql¦stg_receipt_lines.sql⟩⟧ ;; select *, -abs(amount) as signed_amount from {{ ref('returns') }}
ok
T: bash | dbt test --select staging
@test 26
Failure in test ⟦e:⟨unique_receipt_line_key (got 1,207 results)¦not_null_stg_member_rank (got 88 results)⟩⟧
A: テストが一件引っかかりました。レジの再送で同じ行が二度入っているようです。⟨⟦d:再送は受信時刻の早いほうを残す¦こちらは⟦d:伝票番号と行番号で重複を落とす⟩⟧ことにします。
~
U: 締めの時刻、店舗運営と話してきました。⟨⟦d#1:9時半に後ろ倒し¦日次は⟦d#1:朝5時40分に起動⟩⟧で合意です。前の時刻のジョブは止めてください。
A: スケジューラを書き換え、古いほうを無効にしました。
T: bash | gcloud composer environments run prod dags list
@log 16
~
U: BIは⟦-d#2:⟨Tableauを更新して使う¦Looker Studioで作る⟩⟧つもりなので、それ用のビューもお願いします。
A: 承知しました。ビュー名は⟦i:⟨v_sales_for_bi¦vw_store_board⟩⟧にしておきます。
~
T: sql | select region, sum(net_sales) from dev.fct group by region order by 2 desc
@table 20
A: 修正後は経理の数字との差が⟦i:⟨412円¦1,036円⟩まで縮み⟧ました。残りは端数処理の差です。
U: すごい! 監査用に記録しておきたいので、チケット⟦i:DATA-⟪num4.d⟫⟧に貼っておいてください。
~
U: ライセンスの見積もりが高すぎて、BIの件は白紙になりました。⟨代わりに⟦d#2:Metabaseを自前で立てる¦結局⟦d#2:スプレッドシート連携で済ませる⟩⟧そうです。
A: では権限まわりだけ調整します。過去分の再計算は⟦d:⟨dbt run --full-refresh -s fct+ --vars 'from: 2025-04'¦make backfill FROM=202501 TO=202603⟩⟧で流せます。
U: 流しちゃってください。ジョブIDも控えておいてもらえると。
T: bash | bq ls -j -n 20
@table 14
started ⟦i:bqjob_r⟪hex10.q⟫⟧
~
A: 再計算は終わりました。突き合わせ結果は⟦p:gs://retail-audit/⟨diff_2026q1.csv¦recalc/check.parquet⟩⟧にあります。
U: 助かります。⟨役員会は⟦i:5月21日の朝イチ¦社長への報告が⟦i:6月3日の夕方⟩⟧なので間に合いそうです。
A: ⟨一つだけ、⟦d:ギフト券の扱いが未定義のまま¦まだ決まっていないのが⟦d:社員割引を売上に含めるか⟩⟧です。経理の判断をお願いします。
U: 聞いておきます。
~
U: それまでの間に、使われていないモデルを洗い出しておいてもらえますか。
";

const OCR: &str = r"#name ja-ocr-training
#ext py
#root ocr
#words glyph page line crop batch decoder label corpus epoch
#tools bash read_file grep
#noise train train code log grep json test list
S: あなたは古文書OCRの研究チームを手伝うアシスタントです。GPUサーバー上で学習ジョブを動かし、ログを読み、コードを直します。
U: ⟨江戸期の帳簿¦明治の新聞⟩を読ませるモデルを作り直したいです。⟨GPUは⟦c:合計300時間まで¦使えるのは⟦c:A100を2枚、10日間だけ⟩⟧なので、無駄打ちは避けたいところです。
A: では小さなデータで通しの確認をしてから本番に移ります。
T: bash | ls -la /data/kuzushi && nvidia-smi
@list 26
A: データの配置は把握しました。
~
U: 画像の権利が面倒で、⟨⟦c:寺院所蔵分は学習に使わない¦⟦c:個人蔵の資料は除外⟩⟧という約束があります。土台は⟦-d#1:⟨TrOCRのbase¦PARSeqの公開重み⟩⟧で始めましょう。
T: bash | python -m ocr.filter --owner
@table 20
A: 除外後に残ったのは⟦i:⟨58,214行¦131,906行⟩⟧で、一覧は⟦p:/data/kuzushi/⟨splits/train_v4.jsonl¦lists/usable_lines.tsv⟩⟧に書き出しました。
~
T: bash | python -m ocr.train --smoke
@train 26
⟦e:⟨IndexError: index 7121 is out of bounds for dimension 0 with size 7120¦UnicodeEncodeError: surrogates not allowed: U+D842⟩⟧
A: ⟨文字表が一文字足りません。変体仮名が一つ漏れています。¦第三水準の漢字がサロゲートのまま入っています。⟩⟨⟦d:変体仮名は現行の仮名に寄せて数え¦正規化して⟦d:異体字は代表字に置き換え⟩⟧ようと思いますが、よろしいですか。
U: はい、翻刻の方針とも合うのでそれで。
~
U: 学習率はどうします?
A: まず⟦-i#2:⟨学習率4e-4¦学習率2e-4⟩⟧で始めて様子を見ます。
T: bash | sbatch jobs/ocr_full.sh
Submitted batch job ⟦i:⟪num7.j⟫⟧
~
T: bash | tail -n 70 runs/ocr/stdout.txt
@train 44
step   6200 | ⟦e:⟨loss=nan (amp scaler backed off 12 times)¦cer jumped 0.09 -> 0.71, attention collapsed⟩⟧
A: 6200ステップで崩れました。⟨値を下げて⟦i#2:1e-4でウォームアップ2000ステップ¦次は⟦i#2:6e-5に落としてコサイン減衰⟩⟧にして再開します。
U: お願いします。
~
U: 評価の目安ですが、⟨⟦c:文字誤り率3%以下¦館長からは⟦c:行の正読率85%以上⟩⟧を求められています。
A: では最初にその値を報告します。⟨検証用は⟦d:筆者が重ならないように分割する¦水増しを避けるため⟦d:同じ冊子は片側にだけ入れる⟩⟧ことにしました。
~
T: bash | python -m ocr.eval --split dev --by writer
@table 22
A: 筆者ごとのばらつきが大きいです。一番悪いのは⟦i:⟨writer_0273¦筆者番号K-118⟩⟧で、崩し方が独特でした。
U: あの人の字は人間でも読めません(笑)
~
U: 困ったことに、いまの土台は商用利用不可だと知財部から指摘が。⟨⟦d#1:自前で事前学習したViTに乗り換え¦許諾済みの⟦d#1:国語研配布のモデルに差し替え⟩⟧てください。
A: やり直しになりますが、⟦i:⟨74時間分¦およそ52時間⟩⟧あれば足ります。
T: bash | python -m ocr.cache --verify
@log 16
stale cache: ⟦p:/scratch/⟨crops_lmdb_v1¦line_feats_0308⟩⟧ was written with another normaliser
A: 古いキャッシュが残っていたので消して作り直しています。これを使うと気づかないうちに精度が落ちるところでした。
~
A: 途中で止まった場合は⟦d:⟨python -m ocr.train --resume runs/ocr_b --keep-ema¦torchrun ocr/train.py --resume latest --seed-skip⟩⟧で再開できます。様子は⟦i:https://mlflow.example/#/runs/⟪hex8.m⟫⟧で見られます。
U: 便利ですね。
T: bash | tail -n 40 runs/ocr_b/stdout.txt
@train 30
best so far: ⟦p:runs/ocr_b/⟨ckpt_step21500.pt¦best_epoch7.pt⟩⟧
~
U: 論文に書くのでシード値を教えてください。⟨⟦i:シードは31337¦メモだと⟦i:シード値8128⟩⟧で合ってますか?
A: 合っています。⟨課題としては⟦d:朱筆の書き込みが読めない¦残る弱点は⟦d:虫食い部分の補完が未実装な⟩⟧ことです。
U: そこは次年度の予算でやりましょう。締め切りは⟦i:⟨7月11日の23時59分¦8月29日の正午⟩⟧です。
~
U: では混同しやすい文字の一覧を作ってもらえますか。
";

const SURVEY: &str = r"#name ja-logistics-survey
#ext md
#root memo
#words truck depot driver cargo route permit cost survey partner
#tools run read_memo search_memo
#noise doc doc doc grep json table list
S: あなたは調査会社のリサーチアシスタントです。出典を確認しながらメモを蓄積し、報告書の下書きを作ります。run、read_memo、search_memo、web_fetch、write_memo が使えます。
U: ⟨中継輸送¦共同配送⟩の実態調査をまとめます。⟨依頼主は県のトラック協会、分量は⟦-c#1:A4で20枚¦読むのは県庁の課長さんなので⟦-c#1:30ページ以内⟩⟧です。まず統計から当たってもらえますか。
T: web_fetch | https://stats.example/logistics/annual
@doc 36
平均の積載率は⟦i:⟨38.2パーセント¦41.7パーセント⟩⟧であり、前年から横ばいである。
@doc 8
A: 基礎になる数字が見つかりました。調査の母数も十分です。
~
U: いいですね。⟨出典は⟦c:業界紙の孫引きは不可¦使っていいのは⟦c:官公庁か査読論文のみ⟩⟧でお願いします。⟨金額は⟦c:税抜きで統一¦あと⟦c:企業名は伏せ字⟩⟧です。
A: わかりました。既存のメモもその基準で見直します。
~
T: web_fetch | https://law.example/notice
@doc 26
根拠となるのは⟦i:⟨国自貨第84号¦告示第1365号⟩⟧であり、拘束時間の上限を定める。
@doc 6
A: 規制の根拠はこの通達です。⟨構成上、⟦d:法令の話は冒頭にまとめる¦読みやすさを優先して⟦d:規制は付録に回す⟩⟧ことにします。
U: 賛成です。
~
U: 対象の事業者数は⟦-i#2:⟨612社¦1,480社⟩⟧と聞いています。
A: 仮の数として使い、脚注に「聞き取り」と入れておきます。
T: write_memo | ⟦p:memo/⟨taisho_jigyosha.md¦03_population.md⟩⟧ ;; 対象事業者の整理
保存しました
~
T: run | python calc/sampling.py
@table 18
⟦e:⟨ZeroDivisionError: stratum 'island' has no members¦ValueError: weights sum to 0.97⟩⟧
A: 層別の計算が止まりました。⟨⟦d:離島は沿岸部と合算する¦重みの不足は⟦d:端数を最大の層に寄せる⟩⟧ことで解決できます。
U: それで問題ないです。
~
T: web_fetch | https://registry.example/carriers
@table 22
A: 最新の登録簿が公開されていました。⟨事業者は⟦i#2:578社に減って¦現在の登録は⟦i#2:1,533事業者になって⟩⟧います。仮の数はすべて置き換えました。
U: 気づいてくれてよかった。
~
U: ヒアリング先は決まりましたか?
A: 七社から承諾をいただきました。⟨日程調整は⟦i:hearing@chosa.example¦窓口は⟦i:butsuryu-wg@chosa.example⟩⟧に集約しています。記録は⟦p:memo/⟨rec/0218_depot_a.m4a¦interview/line_haul_02.md⟩⟧です。
U: ありがとうございます。⟨⟦c:録音の書き起こしは外注しない¦先方の希望で⟦c:運転手さんの実名は出さない⟩⟧でくださいね。
~
U: 結論の方向性、どう見てます?
A: ⟨拠点を新設するより既存の道の駅を使うほうが現実的です。⟦d:中継拠点は既存施設の転用を推奨¦荷主の側が動かないと続きません。⟦d:荷主負担の料金表を提案の柱に⟩⟧したいと思います。
U: 面白い。協会の会長も喜びそうです。
~
U: 先方から連絡があり、⟨分量は⟦c#1:本文8枚と図表集¦読まれないので⟦c#1:要約5ページだけ⟩⟧に変わりました。元の指定は忘れてください。
A: では事例の部分を図にまとめます。
T: run | wc -m memo/*.md
@list 18
~
A: 試算では、年間の削減効果は⟦i:⟨4億7千万円¦12億3千万円⟩⟧です。前提は別紙に書きました。
U: 別紙は⟦p:nouhin/⟨besshi2_shisan.xlsx¦appendix_model.xlsx⟩⟧ですね。監査で見られるので式を残しておいてください。契約番号は⟦i:⟨K7-¦T9-⟩⟪num5.k⟫⟧です。
~
T: search_memo | 燃料サーチャージ
@grep 18
A: ⟨燃料費の部分だけ⟦d:2026年の単価が未入手¦一点だけ⟦d:女性ドライバーの比率は再照会中⟩⟧です。
U: 了解、問い合わせてみます。⟨報告会は⟦i:11月28日の14時¦発表は⟦i:2月17日の10時⟩⟧、オンラインです。
~
U: それまでに脚注の番号を全部確認してもらえますか。
";
