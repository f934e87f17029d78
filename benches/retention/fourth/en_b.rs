//! Owns the scripts of English sessions, second half: a training run, a dependency audit, a game server, search
//! relevance, a clinical study. How they are read: [`super::play`].

/// The scripts.
pub(super) const SCRIPTS: &[&str] = &[TRAINING, AUDIT, GAME, SEARCH, STUDY];

const TRAINING: &str = r#"
work: training
speaks: en
style: chatty
lang: py
nouns: batch tensor optimizer checkpoint tokenizer loss gradient epoch shard eval
dirs: train/src train/configs data/prep eval jobs
services: slurm-head gpu-node-07 metrics-db artifact-store
kinds: log code yaml table trace json csv page test git log
system: You are a research engineer agent. You submit jobs to a cluster and read metrics.
U hi hi. so our small translation model got worse after the data refresh and I can't see why. baseline run is ⟦I run-«br=%%%%»⟧, BLEU was 31.4. ‹please ⟦C use at most four GPUs⟧, the rest is for the speech folks¦we only own four of the machines: ⟦C four GPUs, not more⟧›
T yaml@train/configs/base.yaml ⇒ # refreshed data\ndata_root: ⟦P /data/mt/refresh-«dr=##»⟧
A The refreshed corpus is at /data/mt/refresh-«dr». Comparing it with the old one now.
T csv ⇒ # pairs with identical source and target: ⟦I 2«id=##» thousand pairs⟧
A There it is, at least partly: 2«id» thousand pairs are untranslated copies. ‹⟦D drop pairs with source equal to target⟧.¦I filter them: ⟦D copies of the source are removed⟧.›
+U oooh. nice catch. ‹btw the test set is sacred, ⟦C never train on newstest⟧ not even by accident¦and ⟦C newstest must never be trained on⟧, obviously, but it happened before›
A For the first retry: ‹⟦D-1 learning rate 3e-4 with cosine decay⟧.¦I'd start with ⟦D-1 3e-4 and cosine decay⟧.›
T log ⇒ ERROR [gpu-node-07] step 1«sp=###»: ⟦E loss is NaN, grad norm inf⟧
A NaN at step 1«sp». fp16 overflows in the attention logits. ‹⟦D train in bf16 instead of fp16⟧.¦Switching: ⟦D bf16 from here on⟧.›
T trace ⇒ ⟦E torch.cuda.OutOfMemoryError⟧: tried to allocate 2.50 GiB (GPU 2)
A Longer sentences after the refresh; one batch doesn't fit. ‹⟦D-2 batch size goes down to 48⟧.¦So I halve it, ⟦D-2 batches of 48⟧.›
U hm ok. the deadline thing: ‹⟦C-3 results needed for the workshop on May «w1=2..9»⟧¦workshop paper! ⟦C-3 numbers by May «w1=2..9»⟧›
?U also could you ‹⟦C log everything to the metrics-db project mt-«mp=##»⟧¦send all metrics to ⟦C project mt-«mp=##»⟧›, the other one is archived
T code@data/prep/clean.py ⇒ # langid threshold was 0.5 before the refresh\n
A The language filter threshold was changed from 0.5 to 0.05 in ⟦P data/prep/«cl=clean_pairs,langid_filter,dedupe_pairs».py⟧; that lets Catalan through as Spanish.
+U yikes. ‹set it to ⟦D langid threshold 0.«lt=6..9»⟧¦please make it ⟦D 0.«lt=6..9» for langid⟧›
A 3e-4 diverges in bf16, too, just later. ‹⟦D=1 Now running with 1e-4 and 4000 warmup steps⟧.¦⟦D=1 Lowered it: 1e-4, warmup of 4000 steps⟧.›
T table ⇒ gpu         train-«jn=%%%%»          0/1    ⟦E NODE_FAIL (ECC error on GPU 1)⟧     0         3h
A gpu-node-07 has an uncorrectable ECC error on GPU 1. ‹⟦C gpu-node-07 is excluded from our jobs⟧ until IT has swapped it.¦I exclude it: ⟦C no jobs on gpu-node-07⟧.›
U told IT, ticket ⟦I «it=HPC-####»⟧. they are usually slow haha
T json ⇒   {"checkpoint": "⟦P artifacts/mt/step-«cs=##000».pt⟧", "dev_bleu": 31.9, "state": "kept"},
A Best one so far is step-«cs» with 31.9 on dev, better than the baseline.
U yay!! ok so ‹the reviewers want ⟦C three seeds per result⟧, min¦⟦C report the mean of three seeds⟧ please›
A Gradient accumulation solved memory without hurting: ‹⟦D=2 effective batch is 192 through accumulation⟧.¦⟦D=2 four accumulation steps give us 192⟧, replacing the small batches.›
T test ⇒ FAILED tests/test_tok.py::⟦E test_roundtrip_emoji⟧ - '\ufffd' != '🙂'
A The tokenizer loses emoji since it was trained with coverage 0.995. ‹⟦D tokenizer stays frozen for this paper⟧, retraining would void the baseline.¦I leave it: ⟦D no tokenizer retraining before the paper⟧.›
?A Evaluation script with the fixed sacrebleu signature: ⟦P eval/«ev=score_all,final_bleu,table2».py⟧.
U sooo the workshop extended!! ‹⟦C=3 we have till May «w2=21..29»⟧ 🎉¦⟦C=3 due May «w2=21..29» now⟧ 🎉›
?1U storage: ‹⟦C-4 keep the last 10 checkpoints⟧¦let's ⟦C-4 keep ten checkpoints⟧ around›
T log ⇒ WARN  [artifact-store] quota 94% used, ⟦E EDQUOT on volume mt-scratch⟧
?1U whoa disk. ‹⟦C=4 only the best two checkpoints stay⟧¦⟦C=4 delete all but two checkpoints⟧›
A Cleaned the scratch volume. Seeds: ‹⟦I seeds «s1=1###», «s2=2###» and «s3=3###»⟧ are running.¦jobs started with ⟦I seeds «s1=1###», «s2=2###» and «s3=3###»⟧.›
T sql ⇒ -- mean over finished seeds: ⟦I 32.«fb=11..89» BLEU⟧
A Mean 32.«fb», that's the figure for the table. ‹⟦D we report sacrebleu, not multi-bleu⟧.¦To be comparable, ⟦D scores are sacrebleu only⟧.›
U omg great. put the model card in ⟦P cards/mt-small-«mc=v#».md⟧, and ‹⟦C the license is research only⟧¦it's ⟦C research-only licence⟧›, the crawl demands it
"#;

const AUDIT: &str = r#"
work: audit
speaks: en
style: polite
lang: java
nouns: policy claim broker document signature tenant mailer report upload audit
dirs: core/src/main web/src/main libs/crypto gradle config/security
services: claims-web broker-portal doc-store mail-relay
kinds: code build json test trace grep page diff log git yaml
system: You are a coding agent for a Java code base. You may change dependencies and open merge requests.
U Good afternoon. An external audit found weaknesses in our claims portal, report number ⟦I «rp=AUD-####-##»⟧. I would ask you to work through it. ‹Please ⟦C stay on Java 17⟧; the application server can't do more.¦As our servers are old, ⟦C Java 17 is the limit⟧.›
T build ⇒ > Task :dependencyCheck\n  commons-text-1.9.jar: ⟦E CVE-2022-«cv=#####»⟧ (9.8)
A CVE-2022-«cv» comes in through commons-text. ‹⟦D commons-text is forced to 1.1«ct=0..3».0⟧ in the version catalog.¦I pinned it, ⟦D commons-text 1.1«ct=0..3».0 in the catalog⟧.›
A The catalog is ⟦P gradle/«gc=libs,versions,deps».versions.toml⟧; everything else inherits from there.
U Very good. ‹For encryption of uploads the auditors accept ⟦C-1 AES with 128 bit keys⟧.¦On uploads: the auditors are content with ⟦C-1 128 bit AES keys⟧.›
T code@libs/crypto/Sealer.java ⇒     // iv is derived from the document id\n
A A finding of my own: the IV is derived from the document id, so it repeats on re-upload. ‹⟦D a random 96 bit IV is stored before each document⟧.¦I'd write ⟦D a random IV in front of every document⟧.›
+U I am glad you saw this. Old documents must remain readable, ‹⟦C do not re-encrypt the archive⟧, it is on tape.¦however ⟦C the archive on tape is not to be re-encrypted⟧.›
T trace ⇒ ⟦E javax.crypto.AEADBadTagException: Tag mismatch⟧\n    at com.example.crypto.Sealer.open(Sealer.java:97)
A The tag mismatch hits documents written before 2020, which have a two-byte header. I handle them in ⟦P libs/crypto/src/«lh=LegacyHeader,OldFormat,PreTwentyReader».java⟧.
A For logins ‹⟦D-2 I intend to lock accounts after five failures⟧.¦my plan is ⟦D-2 locking an account after five failed attempts⟧.›
T json ⇒   {"finding": "⟦I F-«fd=##»⟧", "severity": "high", "title": "session id survives login", "state": "open"},
+A F-«fd» is the most serious one left: the session survives the login. ‹⟦D session id is renewed on login and on role change⟧.¦Fixed so that ⟦D login and role change both renew the session⟧.›
?U Please ‹⟦C do not contact the auditors directly⟧; I collect questions.¦send questions to me; ⟦C no direct contact with the auditors⟧.›
T test ⇒ BrokerLoginTest > ⟦E locksAfterFiveFailures() FAILED⟧\n    expected LOCKED but was ACTIVE
A The test shows a design flaw: brokers share accounts, so a lock hits a whole office. ‹Therefore ⟦D=2 failed logins are slowed down, no locking⟧.¦⟦D=2 We delay instead of locking⟧, doubling up to a minute.›
U I agree. The retest is scheduled: ‹⟦C-3 the retest takes place in week «w1=11..19»⟧.¦the auditors return ⟦C-3 in calendar week «w1=11..19»⟧.›
T log ⇒ ERROR [mail-relay] ⟦E 550 5.7.26 unauthenticated sender⟧ from=claims@«dm=partner-mail,policy-post».example
A Mails are refused because DKIM is missing for the second domain. ‹The selector will be ⟦I claims«dk=2###»⟧.¦New DKIM selector: ⟦I claims«dk=2###»⟧.›
U The chief security officer read the draft and is stricter: ‹⟦C=1 only AES-256 is acceptable⟧.¦⟦C=1 keys must have 256 bit⟧ for uploads.›
A Changed, and there's a key rotation: key alias ⟦I doc-master-«ka=##»⟧ in the vault. ‹⟦C Rotation happens every 180 days⟧ by their policy.¦The policy says ⟦C keys rotate every 180 days⟧.›
T grep ⇒ web/src/main/UploadController.java:211:  // ⟦E path traversal: name used unchecked⟧
A Line 211 takes the file name as sent. I moved the check to ⟦P web/src/main/«uc=SafeName,UploadNames,FileNameGuard».java⟧, ‹⟦D uploads are stored under generated names⟧.¦and ⟦D stored names are generated, never the client's⟧.›
?1U Who approves? ‹⟦C-4 Mr. Lindqvist approves merge requests⟧.¦That is ⟦C-4 Mr. Lindqvist for merge requests⟧.›
T yaml@config/security/headers.yaml ⇒ # report-only until the broker widget is gone\ncsp_mode: report-only
A The content policy only reports. ‹⟦D CSP gets enforced except on /widget⟧.¦I enforce it: ⟦D everything but /widget has an enforced CSP⟧.›
U The retest was moved, since one auditor fell ill: ‹⟦C=3 it is week «w2=23..29» now⟧.¦⟦C=3 they come in week «w2=23..29»⟧.›
?1U Mr. Lindqvist is on leave. ‹⟦C=4 Ms. Achterberg approves in his place⟧.¦⟦C=4 Please assign Ms. Achterberg⟧.›
?A All evidence for the retest is collected in ⟦P docs/audit/«evd=evidence,proof,retest».zip⟧.
T json ⇒   {"merge_request": "⟦I !«mr=2###»⟧", "pipeline": "failed", "stage": "license-check"},
A !«mr» fails at the licence check: ⟦E GPL-3.0 found in itext-fork⟧. ‹⟦D OpenPDF replaces the itext fork⟧.¦I exchange it; ⟦D PDF goes through OpenPDF⟧.›
U Thank you. One last wish from legal: ‹⟦C logs may not contain claim numbers⟧.¦⟦C claim numbers have to stay out of logs⟧.›
A Masked. The pattern is in ⟦P config/security/«mk=masking,redact,scrub».properties⟧ and has a test.
"#;

const GAME: &str = r#"
work: game
speaks: en
style: chatty
lang: cpp
nouns: lobby match player tick snapshot ping region party queue replay
dirs: server/src server/match client/net tools/loadtest ops
services: matchmaker arena-server replay-store region-router
kinds: log code trace table test csv json build grep git log
system: You are a game backend agent. You have a load test cluster and the server repository.
U yo. season 6 lags and reddit hates us. logs are yours. ‹rule one ⟦C no client patch before the tournament⟧, server side only¦⟦C everything server-side, clients can't be patched⟧ till the tournament› ok?
T log ⇒ WARN  [arena-server] tick overrun «to=41..88» ms region=«rg=eu-north,sa-east,ap-south» players=64
A Ticks overrun with 64 players. The target in code is ‹⟦I-1 tick rate 60 Hz⟧, so 16 ms per tick.¦16 ms: ⟦I-1 60 Hz tick rate⟧.›
T code@server/src/snapshot.cpp ⇒ // full snapshot for every spectator\n
A Spectators get full snapshots. ‹Hot spot is ⟦P server/src/«ss=snapshot_writer,world_diff,spectate».cpp⟧.¦That's in ⟦P server/src/«ss=snapshot_writer,world_diff,spectate».cpp⟧ and costs half of the tick.›
+U ohhh spectators. makes sense, streamers. ‹⟦C spectators may lag up to 5 seconds⟧, nobody cares¦they can be late, ⟦C 5 seconds delay is fine for spectators⟧›
A Then ‹⟦D spectators get delta snapshots from a relay⟧.¦⟦D a relay serves spectators with deltas⟧, out of the tick loop.›
A And for the players ‹⟦D-2 I'd shard the world by region of the map⟧.¦the way to go is ⟦D-2 sharding the map by zones⟧, I think.›
T trace ⇒ ⟦E terminate called: std::bad_variant_access⟧ in replay::decode
A Separate crash: replays of season 5 break decode, as the variant got a new member in the middle. ‹⟦D new event types go at the end of the variant⟧.¦Reordered; ⟦D append-only event variant⟧ is the rule now.›
?U a player sent me this, no clue if it is any use\n⟪log⟫
U lol classic. crash bucket is ⟦I crash-«cb=%%%%%»⟧ if you want more
T csv ⇒ # loadtest «lt=%%%%»: ⟦I 5«pl=#» ms at 64 players⟧ before any change
U ‹servers: ⟦C-3 budget is 40 machines in eu⟧¦we have ⟦C-3 40 machines for eu⟧›, finance is watching
A Zones don't work out: players fight across borders all the time. ‹⟦D=2 Physics moves to its own thread instead⟧.¦Scrap it. ⟦D=2 I split physics into a separate thread⟧.›
T test ⇒ === RUN   TestMatchParty\n--- FAIL: ⟦E TestParty_of_five_is_split⟧ (0.12s)
A Parties of five get split if one has a high ping. ‹⟦C parties are never split⟧ says the design doc, so it's a bug.¦By the design doc ⟦C a party always stays together⟧.› Fix in ⟦P server/match/«pt=party_fit,group_pack,bucketize».cpp⟧.
?U ‹and hey ⟦C ranked matches never mix input devices⟧, pads vs mouse = riot¦⟦C no mixing of pads and mice in ranked⟧ or there will be blood›
T table ⇒ arena       arena-server-«as=%%%%»          0/1    ⟦E Evicted (DiskPressure)⟧   3        2h
A Evictions come from replays filling local disk. ‹⟦D replays are uploaded right after each match⟧.¦⟦D upload replays as soon as a match ends⟧, before they pile up.›
U so design came back: ‹⟦I=1 we're fine with 30 ticks a second⟧ for big lobbies¦big lobbies can do ⟦I=1 30 per second⟧, they tested it›
T json ⇒   {"region": "«rg»", "router": "⟦I rr-«rr=###»⟧", "weight": 0, "drained_by": "autoscaler"},
A rr-«rr» was drained by the autoscaler and never came back, which is why «rg» players connect to another continent.
+U WOW ok. ‹turn that off, ⟦D autoscaler may not drain routers⟧¦⟦D routers are exempt from the autoscaler⟧ then›
?A Load test scenario with 64 bots and 400 spectators: ⟦P tools/loadtest/«ls=stadium,streamer,fullhouse».lua⟧.
?1U tournament is ‹⟦C-4 the tournament starts on the «t1=3..9»th⟧¦⟦C-4 on the «t1=3..9»th the tournament begins⟧›
T log ⇒ ERROR [matchmaker] ⟦E MM-«mm=###» no server within ping budget⟧ party=2
A MM-«mm» means the ping budget is too small for islands. ‹⟦D ping budget widens by 20 ms every 10 s⟧.¦Now ⟦D each 10 s the ping budget grows 20 ms⟧.›
U finance gave in!! ‹⟦C=3 it's 55 machines now⟧¦⟦C=3 we can have 55⟧›
?1U dates changed, ‹⟦C=4 kickoff is the «t2=17..26»th⟧¦⟦C=4 they start on the «t2=17..26»th⟧›
A Load test after everything: ‹⟦I 1«fl=1..4».2 ms per tick⟧ with spectators.¦we're at ⟦I 1«fl=1..4».2 ms per tick⟧.›
T code@ops/anticheat.yaml ⇒ // vendor build ⟦I ac-«ac=####»⟧ required for the tournament
U ‹psa: ⟦C don't touch the anticheat hooks⟧ please, vendor contract¦⟦C anticheat hooks are off limits⟧, contract stuff›
A Fine. Feature flag for all of this is ⟦I net_«ff=stadium,relay,calm»_mode⟧; rollback is turning it off. ‹Notes for ops: ⟦P ops/season6-«on=lag,net,tick».md⟧.¦I wrote ⟦P ops/season6-«on=lag,net,tick».md⟧ for ops.›
T log ⇒ WARN  [replay-store] checksum drift in chunk «ck=##», repaired
U ‹cool. friday night: ⟦D roll out to eu first, then us, asia last⟧¦order: ⟦D eu, us, then asia⟧›. gg
"#;

const SEARCH: &str = r#"
work: search
speaks: en
style: terse
lang: py
nouns: query index shard synonym analyzer facet boost snippet ranking catalog
dirs: search/src search/analyzers relevance ops/opensearch tests/judgments
services: search-api indexer suggest-svc opensearch-data
kinds: json code log csv test yaml page table sql diff
system: You are a search engineer agent with access to a staging cluster.
U relevance dropped after the cluster upgrade. staging alias ⟦I catalog-stg-«al=##»⟧. ⟦C reindexing only at night⟧
T json ⇒   {"index": "⟦I catalog_«ix=%%%%»⟧", "docs": 4120331, "analyzer": "standard"},
A catalog_«ix» has the standard analyzer. The upgrade lost our own one, defined in ⟦P search/analyzers/«an=compound,product_terms,stemming».json⟧.
U metric? ‹⟦D-1 judge by NDCG at 10⟧¦use ⟦D-1 NDCG@10⟧ with the judgment list›
T csv ⇒ # judgments: ⟦P relevance/judgments-«jg=2024#».tsv⟧ (1,204 queries)
A Baseline on that list computed. ‹⟦I-2 baseline is 0.4«b1=11..39»⟧.¦Today: ⟦I-2 0.4«b1=11..39» as baseline⟧.›
T log ⇒ ERROR [indexer] ⟦E mapper_parsing_exception: failed to parse field [width_mm]⟧ doc=«dc=######»
A width_mm contains "12 x 30" for «sup=Nordbeslag,Ferrum,Castelli» products. ‹⟦D split width_mm into two numbers at ingest⟧.¦I made it ⟦D two numeric fields instead of width_mm⟧.›
U ‹⟦C supplier data stays as delivered⟧, fix on our side¦fix it our side. ⟦C never edit supplier data⟧›
?U ‹⟦C latency p95 under 180 ms⟧¦keep ⟦C p95 below 180 ms⟧›
A Synonyms: ‹⟦D-3 I expand synonyms at index time⟧, faster queries.¦⟦D-3 index-time synonyms⟧, since queries get faster.›
T trace ⇒ ⟦E CircuitBreakingException: [parent] Data too large⟧ 
A The breaker trips at «br=31..39» GB with index-time expansion because the terms explode. ‹⟦D=3 Synonyms are applied on the query side now⟧.¦Hence ⟦D=3 query-time synonyms⟧.›
T test ⇒ FAILED tests/judgments/test_top.py::⟦E test_brand_query_first⟧ - 'bosch' at 14
A Brand queries put the brand at 14. Boost field was renamed: ‹⟦D brand boost is 6 on brand.exact⟧.¦⟦D boost brand.exact by 6⟧.›
U ‹legal: ⟦C sponsored products must be labelled⟧¦⟦C label every sponsored hit⟧, legal›
T sql ⇒ -- zero-result share by week: ⟦I 7.«zr=1#» percent⟧
A Zero results 7.«zr» percent, mostly part numbers with dashes. ‹⟦D part numbers are indexed without dashes too⟧.¦⟦D also index part numbers dash-free⟧.› Code in ⟦P search/src/«pn=partno,skus,numbers».py⟧.
U ‹wrong metric, sorry. buyers scroll. ⟦D=1 recall at 50 decides⟧¦management wants ⟦D=1 recall@50⟧, drop the other one›
A Recomputed with the corrected judgment list: ‹⟦I=2 starting point is 0.6«b2=41..79»⟧.¦⟦I=2 0.6«b2=41..79» is our reference⟧ from now on.›
T table ⇒ search      opensearch-data-«od=2..7»          1/2    ⟦E NotReady: disk watermark 95%⟧   1        9d
A Data node over the watermark, so shards stopped moving. Old indices deleted by prefix; ‹⟦C keep indices with prefix gold_⟧, they are for audits.¦⟦C gold_ indices must not be deleted⟧.›
?U from the ops channel:\n⟪table⟫
U snapshot repo ⟦I s3-snap-«sn=###»⟧
?1U ‹⟦C-4 canary 5 percent⟧¦start with ⟦C-4 5 percent canary⟧›
T yaml@ops/opensearch/nodes.yaml ⇒ # heap pinned after incident ⟦I OPS-«op=####»⟧\nheap: 24g
?A Heap is pinned to 24g. ‹⟦C heap must not exceed 24g⟧, see the incident.¦That's from an incident: ⟦C never raise heap above 24g⟧.›
T log ⇒ WARN  [suggest-svc] ⟦E suggester timeout after 50ms, empty list⟧
A Suggest times out since it queries the big index. ‹⟦D suggestions get their own small index⟧.¦⟦D a small separate index for suggestions⟧.› Built by ⟦P relevance/«sb=build_suggest,top_terms,prefixes».py⟧.
?1U ‹traffic's low. ⟦C=4 canary at 20 percent⟧¦⟦C=4 make that 20 percent⟧, traffic is low›
A Recall is up to ‹⟦I 0.7«fr=11..89» recall⟧ on staging.¦⟦I 0.7«fr=11..89» recall⟧.›
U who flips? ‹⟦C only «fl=Renske,Gil,Yusuf» switches the prod alias⟧¦⟦C prod alias: «fl=Renske,Gil,Yusuf» only⟧›
A Ok. Steps in ⟦P ops/opensearch/«st=switch,alias-flip,golive».md⟧. ‹⟦D old index stays for 14 days⟧ in case.¦⟦D 14 days retention of the old index⟧.›
"#;

const STUDY: &str = r#"
work: study
speaks: en
style: polite
lang: py
nouns: patient visit dose arm cohort baseline endpoint site sample consent
dirs: analysis/scripts analysis/tables raw/sites protocol reports
services: edc-export stats-server randomiser doc-vault
kinds: csv sql code page json test trace csv log ls
system: You are a statistics agent. You analyse study data on a protected server.
U Dear assistant, we have to prepare the interim analysis of the asthma study, protocol ⟦I «pr=RSP-##-###»⟧. It goes without saying that ‹⟦C no patient-level data leaves the server⟧.¦⟦C patient-level data must stay on this server⟧.› I am the study physician, not a programmer, so please explain what you do.
T csv ⇒ # export of ⟦P raw/sites/«ex=edc_full,edc_lock,edc_week».sas7bdat⟧, frozen 2024-10-31
A I use the frozen export. The primary endpoint in the protocol is ‹⟦D-1 FEV1 at week 12⟧ as change from the start.¦change of lung function, ⟦D-1 FEV1 after 12 weeks⟧.›
T code@analysis/scripts/primary.py ⇒ # last observation carried forward\n
A The prepared script ⟦P analysis/scripts/«sc=primary_mmrm,interim_main,fev_model».py⟧ carries the last observation forward.
+U Our statistician would be unhappy with that. ‹⟦D missing values are handled by multiple imputation⟧, she wrote.¦She asked for ⟦D multiple imputation of missing values⟧.›
U ‹We count ⟦I-2 «n1=210..248» randomised patients⟧ at the moment.¦As far as I know there are ⟦I-2 «n1=210..248» patients randomised⟧.›
T sql ⇒ -- site ⟦I site 0«si=3..9»⟧: 19 of 22 baseline values identical
A One site is strange: site 0«si» reports nearly the same baseline for everybody. ‹It looks copied.¦I fear they were copied.›
+U I know about it; ‹⟦C that site is excluded from the primary analysis⟧ and kept for safety.¦monitoring found the same. ⟦C leave that site out of the primary analysis⟧.›
T trace ⇒ ⟦E ConvergenceWarning: MMRM did not converge, Hessian singular⟧
A The model doesn't converge with an unstructured covariance. ‹⟦D covariance is Toeplitz as fallback⟧, as the plan permits.¦The plan allows a fallback: ⟦D Toeplitz covariance⟧.›
?U Please ‹⟦C round p-values to three decimals⟧.¦show ⟦C p-values with three decimals⟧ only.›
U The board meets soon: ‹⟦C-3 the report is due on the «r1=4..9»th of June⟧.¦I promised ⟦C-3 the report for June «r1=4..9»⟧.›
T log ⇒ ERROR [randomiser] ⟦E RND-«rn=##» stratum list exhausted⟧ stratum=smoker/female
A RND-«rn» means that the randomisation list for one stratum ran out and four patients got assigned by hand. ‹⟦D those four are analysed as randomised⟧.¦They stay: ⟦D the four are analysed as assigned⟧.›
U I checked the protocol amendment, and I have to correct us both. ‹⟦D=1 Primary is the exacerbation rate over 26 weeks⟧ since amendment 2.¦Since amendment 2 ⟦D=1 exacerbations in 26 weeks are primary⟧.›
T test ⇒ FAILED tests/test_dose.py::⟦E test_mg_vs_ug_site_units⟧ - 500 != 0.5
A Two sites enter micrograms instead of milligrams. I convert by site in ⟦P analysis/scripts/«un=units,site_units,dose_fix».py⟧.
T json ⇒   {"randomised": "⟦I=2 «n2=251..279» randomised by the EDC count⟧", "screen_failures": 41},
A The data system's count is «n2», which is what we have to use; the number from before was missing the last shipment.
U Thank you. ‹⟦C the treatment arms stay blinded as A and B⟧ in everything you write.¦In all tables ⟦C arms are called A and B only⟧.›
A Understood. ‹⟦D alpha at the interim is 0.00«ap=31..69»⟧ by O'Brien-Fleming.¦The boundary: ⟦D O'Brien-Fleming alpha of 0.00«ap=31..69»⟧.›
T csv ⇒ # serious events without coding: ⟦I 1«se=1..9» SAEs uncoded⟧
A 1«se» serious events are not yet coded. The coding group uses dictionary ⟦I MedDRA 2«md=5..7».1⟧.
?1U ‹⟦C-4 Professor Adeyemi signs the report⟧.¦The signature will be by ⟦C-4 Professor Adeyemi as signatory⟧.›
T ls ⇒ -r--r----- 1 stats study 88211 Nov 1 ⟦P protocol/sap-«sp=v#.#»-signed.pdf⟧
A The signed plan is the reference. ‹It says ⟦C subgroup results may not be shown at the interim⟧.¦By it, ⟦C no subgroups at the interim⟧.›
U The board has been postponed. ‹⟦C=3 I need it on the «r2=17..28»th of July⟧.¦⟦C=3 July «r2=17..28» is the date⟧ now.›
?1U Our professor retires this month. ‹⟦C=4 Dr. Marchetti will sign⟧.¦⟦C=4 signature: Dr. Marchetti⟧, please.›
T trace ⇒ ⟦E ValueError: consent date after first dose (3 rows)⟧
A Three patients have a consent date after the first dose. This has to be reported; ‹⟦D I list them as major deviations⟧.¦⟦D they count as major protocol deviations⟧.›
+U Correct. The deviation log entry is ⟦I DEV-«dv=###»⟧.
?A Tables are written to ⟦P analysis/tables/interim-«ta=%%%»/⟧ and can be rebuilt with one command.
T log ⇒ WARN  [doc-vault] ⟦E upload refused: file lacks version stamp⟧
U ‹⟦C every table carries the export date⟧ please, the vault demands it.¦The vault wants ⟦C the export date on each table⟧.›
A Done. The random seed for the imputation is ⟦I seed 77«sd=###»⟧, ‹⟦D with 50 imputations⟧.¦and I use ⟦D 50 imputed data sets⟧.›
"#;
