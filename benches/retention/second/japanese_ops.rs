//! Japanese scripts about operations: cloud costs, a mail migration, slow CI, support for customers.

pub(super) const SCRIPTS: &[&str] = &[CLOUD, MAIL, CI, HELP];

const CLOUD: &str = r#"#name ja-cloud-cost
#ext tf
#root infra/modules
#words vpc bucket cluster queue bastion nat alarm role snapshot
#tools bash read_file grep
#noise code code log json pods grep diff list
S: あなたはAWS環境の運用を手伝うエージェントです。terraformとaws CLIが使えます。リソースの削除は必ず事前に確認してください。
U: AWSの請求が先月⟦i:⟨487万円¦312万円⟩⟧まで膨らんでしまって、減らしたいです。⟨⟦c:本番DBには絶対に触らないで¦⟦c:決済系アカウントは対象から外して⟩⟧ください。それ以外は相談しながらで。
T: bash | aws ce get-cost-and-usage --granularity MONTHLY
@json 34
A: 内訳を見ると、NATゲートウェイの転送量とスナップショットが突出しています。
~
T: bash | aws ec2 describe-snapshots --owner-ids self | jq length
@list 22
oldest: ⟦i:snap-0⟪hex10.s⟫⟧ (2019)
A: 2019年のものから残っています。⟨⟦d:スナップショットは90日で自動削除する¦世代管理を入れて⟦d:月末分だけ1年残す⟩⟧ようにすれば、かなり減ります。
U: いいですね。法務に聞いたら⟨⟦c:監査ログだけは7年保管⟧だ¦⟦c:アクセスログは消してはいけない⟧⟩そうなので、そこは除いてください。踏み台は⟦-i#1:⟨10.20.0.15¦172.16.4.9⟩⟧です。
~
T: bash | terraform -chdir=infra plan -no-color
@code 34
⟦e:⟨Error: Error acquiring the state lock: ConditionalCheckFailedException¦Error: Provider produced inconsistent final plan⟩⟧
A: 計画の段階で止まりました。⟨以前のCIがロックを握ったままでした。¦プロバイダの版が古いためでした。⟩該当の定義は⟦p:infra/⟨backend_prod.tf¦versions_pinned.tf⟩⟧です。
U: あー、たまに起きるやつです。
~
U: 開発環境を使わない間は止めたいですね。⟦-d#2:⟨20時から翌8時まで停止¦土日だけ停止⟩⟧でどうでしょう。
A: その設定で月に六十万円ほど下がる見込みです。
A> 設定を書きます。
T: edit_file | ⟦p:infra/modules/⟨scheduler/night_stop.tf¦devenv/calendar.tf⟩⟧ ;; resource "aws_scheduler_schedule" "stop" {}
saved
~
T: bash | aws cloudwatch get-metric-data --cli-input-json file://nat.json
@json 24
A: 転送の大半はS3宛てでした。⟨⟦d:S3はゲートウェイ型エンドポイント経由¦コンテナの取得が多いので⟦d:ECRのプルスルーキャッシュ⟩⟧にすれば無料枠に収まります。
U: そんな手が。ぜひ。
~
U: 踏み台を作り直したそうです。⟨新しいのは⟦i#1:10.31.7.40¦いまのアドレスは⟦i#1:172.29.0.66⟩⟧なので、設定を変えておいてください。
A: 変更しました。既知ホストの鍵も入れ替えてあります。
T: bash | ssh bastion uptime
@log 8
~
U: 開発チームから、夜中に海外拠点が使うと苦情が来ました。⟨停止は⟦d#2:日本時間の2時から6時だけ¦やり方を⟦d#2:未使用3時間で自動停止⟩⟧に変えましょう。
A: 書き換えました。効果は少し減りますが、苦情は出ないと思います。
~
T: bash | terraform -chdir=infra apply -target=module.endpoints
@log 18
⟦e:⟨UnauthorizedOperation: ec2:CreateVpcEndpoint¦RouteAlreadyExists: pl-61a54008⟩⟧
A: ⟨権限が足りませんでした。¦手作業で作られた経路とぶつかりました。⟩依頼が必要です。
U: 申請しました、番号は⟦i:REQ⟪num6.r⟫⟧です。適用するときは⟦d:⟨make apply ENV=shared APPROVER=sre¦./bin/tfwrap apply shared --window night⟩⟧を使ってください。
~
A: 適用が終わりました。見込みでは月⟦i:⟨291万円¦184万円⟩⟧になります。
U: おお、目標達成です! ⟨社長には⟦c:3割以上の削減¦経営会議の目標は⟦c:月200万円未満⟩⟧と言われていたので。
T: bash | aws budgets describe-budgets --account-id 000000000000
@json 16
~
A: 予算の通知先は⟦i:⟨cloud-cost@corp.example¦sre-billing@corp.example⟩⟧にしました。ダッシュボードは⟦i:https://grafana.example/d/⟪hex8.g⟫⟧です。
U: ありがとうございます。⟨あと⟦d:リザーブドの更新を誰が判断するか未定¦宿題は⟦d:古いElastic IPの持ち主探し⟩⟧ですね。来月の定例で決めます。
~
U: それまでにタグの付いていないリソースを一覧にしておいてください。
"#;

const MAIL: &str = r#"#name ja-mail-migration
#ext yml
#root ansible/roles
#words postfix mailbox alias quota spam relay archive domain group
#tools sh read_file grep
#noise log log code table grep json list diff
S: あなたは大学の情報センターでメールシステムの移行を支援するエージェントです。Ansibleの編集と検証環境でのコマンド実行ができます。本番の操作は職員が行います。
U: 学内メールをクラウドに移す計画です。対象は⟦i:⟨8,412アカウント¦15,730アカウント⟩⟧。⟨⟦c:授業期間中は停止できない¦⟦c:入試の週は一切作業しない⟩⟧という縛りがあります。
A: 承知しました。では段階的に移せるよう、まず現状の構成を確認します。
T: sh | postconf -n
@grep 26
A: 転送の設定が学部ごとにばらばらですね。
~
T: sh | imapsync --dry --justfolders
@log 30
⟦e:⟨NO [OVERQUOTA] mailbox is 103% full¦BAD Command Argument Error. 11: folder name utf-7⟩⟧
@log 6
A: 事前確認で引っかかった箱があります。⟨名誉教授の方々の容量超過です。¦日本語のフォルダ名が原因です。⟩変換表は⟦p:ansible/roles/⟨migrate/files/folder_map.csv¦imap/vars/utf7_names.yml⟩⟧に置きます。
U: 助かります。中継サーバーは⟦-i#1:⟨relay1.u-kita.example¦mx-old.g-minami.example⟩⟧を使ってください。
~
U: 方式はどう考えてますか。
A: ⟨一斉切り替えは危険です。⟦d:学部単位で三週に分けて移行する¦両方に届く期間を作り、⟦d:二重配送を10日間続ける⟩⟧のが安全かと。
U: そうしましょう。⟨⟦c:学生のメール本文は閲覧するな¦個人情報委員会から⟦c:ログの保存は90日限り⟩⟧と釘を刺されてます。
~
U: 迷惑メール対策は⟦-d#2:⟨SpamAssassinを続投¦既存の箱物アプライアンスを流用⟩⟧ということで。
A: 設定を引き継ぎます。
T: sh | ansible-playbook site.yml --check --diff
@diff 30
fatal: [mail02]: FAILED! => ⟦e:⟨"msg": "dovecot: ssl_min_protocol unknown"¦"msg": "Unable to find LDAP base ou=staff"⟩⟧
A: 検証機で一台だけ失敗しました。版が古いのが理由で、⟨⟦d:mail02は移行せず廃止¦職員の属性が違うので⟦d:LDAPは読み取り専用の複製を参照⟩⟧するのがよいと思います。
~
U: 中継の話ですが、機器更新に伴って⟨⟦i#1:relay5.u-kita.example¦⟦i#1:mx-hub.g-minami.example⟩⟧に切り替わりました。前の機械は撤去済みです。
A: 参照箇所を七つ書き換えました。
T: sh | dig +short mx campus.example
@log 8
~
A> 試験用の学科で流してみます。
T: sh | ./run_wave.sh pilot
@log 28
wave pilot finished: ⟦i:⟨137 of 137 mailboxes¦64 of 64 mailboxes⟩⟧
A: 試験移行は全件成功です。再実行は⟦d:⟨./run_wave.sh pilot --since-last --verify¦ansible-playbook wave.yml -e group=pilot -f 4⟩⟧でできます。
U: 上々ですね。管理番号は⟦i:⟨MIG¦MAIL⟩-⟪num4.w⟫⟧にまとめておいてください。
~
U: 迷惑メールの件、予算がついたので⟨⟦d#2:クラウド側の標準フィルタに一本化¦⟦d#2:Rspamdへ乗り換え⟩⟧となりました。今までのは止めます。
A: 学習済みの許可リストだけ移しておきました。⟦p:⟨/srv/mail/allow_senders.txt¦ansible/roles/filter/allowlist.yml⟩⟧です。
~
T: sh | grep -c 'dmarc=fail' /var/log/mail.log
@log 14
⟦e:⟨550 5.7.26 Unauthenticated email from gakuseika¦550-5.7.1 SPF check failed for kyomu⟩⟧
A: 一部の部署が学外のサービスから送っていて、認証に失敗しています。⟨DKIMのセレクタ⟦i:sel2026a¦SPFには⟦i:include:_spf.bulk.example⟩⟧を追加してください。
U: DNS担当に頼みます。
~
U: 学長向けの説明は⟦i:⟨7月8日の教授会¦12月16日の評議会⟩⟧です。添付の上限は⟨⟦c:25MBで案内¦今と同じ⟦c:30MBを維持⟩⟧してください。
A: 資料に入れました。⟨気がかりは⟦d:退職者の転送をいつ切るか¦決まっていないのは⟦d:メーリングリストの管理者の引き継ぎ⟩⟧です。
U: 委員会で諮ります。手順書の公開先は⟦i:⟨https://ict.u-kita.example/mail2026¦https://support.g-minami.example/newmail⟩⟧です。
~
U: では利用者向けのよくある質問を作っていきましょう。
"#;

const CI: &str = r"#name ja-ci-speedup
#ext go
#root internal
#words runner cache shard artifact matrix lint coverage fixture release
#tools bash read_file grep
#noise test test code log build grep git json
S: あなたは開発基盤チームのエージェントです。CIの設定とビルドスクリプトを改善します。bash、read_file、grep、edit_file が使えます。
U: CIが遅すぎて開発者がみんな怒ってます。⟨いま⟦i:平均34分かかって¦中央値で⟦i:47分かかって⟩⟧います。なんとか短くしたいです。
T: bash | gh run list --limit 40
@log 30
A: 時間の六割がテスト、二割が依存の取得でした。
U: 目標は⟦-c#1:⟨20分以内に収める¦15分を切る⟩⟧ことです。⟨⟦c:テストを減らすのはナシ¦⟦c:カバレッジ78%は死守⟩⟧でお願いします。
A: 承知しました。では並列化とキャッシュから攻めます。
~
T: read_file | ⟦p:.github/workflows/⟨verify.yml¦pull_request_full.yml⟩⟧
@code 40
A: キャッシュのキーに日付が入っていて、毎日作り直しになっています。⟨⟦d:キーはgo.sumのハッシュだけに¦鍵の作り方を変え、⟦d:ブランチ間でキャッシュを共有⟩⟧します。
~
T: bash | go test ./... -count=1 -json | tparse -slow 30
@test 34
FAIL internal/release ⟦e:⟨context deadline exceeded: registry mock never ready¦listen tcp :8099: bind: address already in use⟩⟧
@test 6
A: 単独だと通るのに、並べると落ちるテストがありました。⟨⟦d:固定ポートをやめて空きを使う¦共有の状態があるので⟦d:パッケージごとにDBを分ける⟩⟧よう直します。
U: それ、ずっと不安定だったやつだ。チケットは⟦i:INFRA-⟪num4.i⟫⟧です。
~
U: ランナーは⟦-d#2:⟨GitHub標準の4コア¦社内のMac mini⟩⟧で我慢する感じですかね。
A: 当面はそれで足りると思います。
T: edit_file | ⟦p:scripts/ci/⟨split_tests.go¦shard_plan.sh⟩⟧ ;; // 過去の所要時間で分割する
ok
~
T: bash | gh run view --log | grep -i -E 'killed|oom|error' | tail
@log 20
⟦e:⟨golangci-lint: signal: killed (exit 137)¦no space left on device: /home/runner/work⟩⟧
A: 静的解析がメモリかディスクを食い潰しています。⟨⟦d:リントは差分だけにかける¦解析は⟦d:夜間の定期実行に移す⟩⟧のが妥当です。
U: わかりました。⟨⟦c:秘密情報をログに出さない¦外部からのPRでは⟦c:シークレットを渡さない⟩⟧、これだけは気をつけてください。前に事故があったので。
~
U: ランナーの件、予算が下りました! ⟨⟦d#2:自前のEKSで16コアを運用¦今後は⟦d#2:ARMの大型ランナーを契約⟩⟧します。月額は⟦i:⟨21万円¦13万8千円⟩⟧です。
A: ラベルを書き換えました。⟨⟦i:runs-on: big-linux-16¦指定は⟦i:runs-on: arm-xl⟩⟧です。
T: bash | gh workflow run verify
@log 6
~
T: bash | gh run list --workflow verify --json durationMs | jq '.[]'
@json 20
A: 新しい構成では⟦i:⟨11分20秒¦9分48秒⟩⟧でした。
U: すばらしい。⟨部長が欲を出して、目標を⟦c#1:10分未満に引き上げろ¦上から⟦c#1:8分台を目指せ⟩⟧と言われました。
A: もう一段いけると思います。
~
A: 手元で同じ分割を再現するには⟦d:⟨go run ./scripts/ci -plan 8 -only 3¦SHARD=2/6 make test-shard⟩⟧です。
U: 共有しておきます。反対していた⟨森田¦浅野⟩さんも納得してました。
T: bash | git log --oneline -20
@git 16
merged as ⟦i:⟪hex9.m⟫⟧
~
U: 困ったら誰に聞けばいいかも書いておいてください。チャンネルは⟦i:⟨#ci-soudan¦#dev-platform-help⟩⟧です。
A: 書きました。説明は⟦p:docs/⟨ci/hayami.md¦platform/runner_guide.md⟩⟧にあります。⟨残りは⟦d:Windows版のビルドが未対応¦手つかずなのは⟦d:成果物の保存期間の見直し⟩⟧です。
U: それは来期で。⟨旧環境は⟦i:3月31日に停止¦移行の期限は⟦i:9月30日まで⟩⟧と告知済みです。
~
U: では統計をとるスクリプトも見直しておいてもらえますか。
";

const HELP: &str = r#"#name ja-customer-support
#ext md
#root support/kb
#words ticket device firmware camera account plan refund reply shipment
#tools run read_kb search_tickets
#noise doc doc table json log grep
S: あなたは見守りカメラのメーカーで、二次サポートを手伝うアシスタントです。問い合わせ履歴とナレッジを検索し、返信文の下書きを作ります。返金の約束はしないでください。
U: お疲れさまです。厄介な案件で、お客様は⟦i:⟨医療法人あおば会¦グループホームひだまり⟩⟧さん、受付番号⟦i:⟨Q¦W⟩⟪num7.q⟫⟧です。⟨夜間だけ映像が途切れる¦録画が三日前から保存されない⟩とのことで。
T: get_ticket | latest
@json 28
"device_log": "⟦e:⟨E-4092 stream key rejected¦SD-118 write verify failed⟩⟧ x 57"
A: 機器側に同じエラーが並んでいますね。似た事例を探します。
~
T: search_tickets | 夜間 途切れ 録画 停止
@table 26
A: 半年で九件ありました。いずれも⟨⟦d:camctl rekey --all --keep-wifi¦⟦d:fwtool sdcheck --repair --slot 1⟩⟧で解消しています。
U: なるほど。先方は施設なので⟨⟦c:消灯後の訪問は不可¦⟦c:電話は午後2時から4時の間だけ⟩⟧です。⟨⟦c:事務長の戸田さん以外には話さない¦それと⟦c:入居者のご家族には直接連絡しない⟩⟧でください。
A: 承知しました。
~
U: 台数は⟦-i#1:⟨18台¦35台⟩と聞いて⟧います。
T: run | licctl show --customer current
@table 20
A: 契約は有効で、止まる理由は見当たりません。
~
U: 先方から「⟦-c#2:⟨毎日17時に状況報告¦二時間おきに電話連絡⟩⟧が欲しい」と言われました。対応しましょう。
A: 報告文のひな形を作っておきます。
T: run | diag unpack bundle.tgz --summary
@log 30
⟦e:⟨ntp: clock drift 312 s on hub-2¦wifi: DFS radar detected, channel 116 vacated⟩⟧
詳細: ⟦p:⟨/var/camhub/log/timesync-0216.log¦/mnt/hub/diag/radio_events.txt⟩⟧
A: もう一つ原因がありました。⟨親機の時計がずれて鍵が無効になっています。⟦d:時刻は館内サーバーに合わせる¦電波が気象レーダーと干渉しています。⟦d:5GHz帯はW52に固定する⟩⟧設定をご案内します。
U: それは盲点でした。
~
U: 営業から訂正が。⟨別館の分を足して⟦i#1:全部で26台¦増設があったので⟦i#1:計52台⟩⟧だそうです。私の情報が古かったです。契約書は⟦i:K-⟪num5.k⟫号⟧。
A: 下書きを直しました。
~
T: run | camctl fleet --firmware
@table 22
A: ファームウェアが⟦i:⟨3.8.11¦5.2.07⟩⟧のままの機器が四台ありました。⟨⟦d:更新は一台ずつ翌朝に実施する¦念のため⟦d:先に予備機で更新を試す⟩⟧のがよいと思います。一斉に更新すると見守りが途切れるためです。
U: その順番でお願いします。交換機の手配は⟦i:⟨https://parts.cam.example/rma¦https://order.cam.example/kashidashi⟩⟧からです。
~
U: お客様も落ち着かれたようで、連絡は⟨⟦c#2:完了時にメール一通で十分¦⟦c#2:週明けにまとめて一回⟩⟧とのことです。
A: よかったです。ひな形は片付けておきます。
T: run | camctl events --since 12h
@log 24
job ⟦i:⟪uuid.j⟫⟧ completed: 0 dropped frames
~
A: 昨夜は一度も途切れませんでした。再発防止としてナレッジ⟦p:support/kb/⟨yakan_togire.md¦rokuga_teishi.md⟩⟧に追記が必要です。
U: お願いします。開発の課題は⟦i:⟨FW¦HUB⟩-⟪num4.f⟫⟧に紐づけてください。
A: 紐づけました。⟨お客様側に残っているのは⟦d:停電時の復帰テスト¦確認待ちなのは⟦d:保存期間を延ばすかどうか⟩⟧です。
~
U: お見積もりは⟦i:⟨86,900円¦143,000円⟩⟧で出しました。⟨次の訪問は⟦i:4月9日の11時¦定期点検は⟦i:10月2日の15時⟩⟧です。
A: 記録しました。
~
U: ではナレッジの記事を下書きしてもらえますか。
"#;
