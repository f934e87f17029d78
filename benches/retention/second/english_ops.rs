//! English scripts about operations: a cluster, a database, documentation, an incident.

pub(super) const SCRIPTS: &[&str] = &[CLUSTER, DATABASE, HANDBOOK, INCIDENT];

const CLUSTER: &str = r#"#name en-cluster-move
#ext yaml
#root deploy/charts
#words ingress gateway worker ledger search cache frontend quota secret
#tools bash read_file grep
#noise pods pods code log grep json diff list
S: You are an infrastructure agent. You have kubectl, helm and terraform on the command line, and read and edit access to the deployment repository. Ask before you delete anything.
U: We're moving from the old cluster to the new one in ⟨Frankfurt¦Dublin⟩. ⟨Start with everything but the ledger: ⟦c:the ledger namespace is off limits¦You can touch all namespaces except one, ⟦c:hands off kube-ledger⟩⟧, finance closes the books this week.
T: bash | kubectl config get-contexts && kubectl get ns
@pods 24
A: I see both clusters. The new one is reachable under the context ⟦i:⟨eks-fra-prod-2¦aks-dub-prod-b⟩⟧.
~
U: Image size matters over there, nodes are small. ⟨An image ⟦c:above 350 MB won't be scheduled¦The admission hook ⟦c:rejects images over 280 MB⟩⟧. And DNS: the TTL is on ⟦-i#1:⟨3600 seconds¦1800 seconds⟩⟧ today.
A: I'll check the sizes first then.
T: bash | crane ls registry.example/platform | xargs -n1 ./ops/imgsize.sh
@list 28
registry.example/platform/⟦i:search-indexer:⟨2.19.4¦3.0.1⟩⟧  612 MB
A: One image is far too large. It carries the whole build tool chain; ⟨a second stage in its Dockerfile will do, ⟦d:the indexer ships on distroless¦I'd trim it by copying only the binary, ⟦d:indexer moves to an alpine base⟩⟧.
~
T: bash | helm upgrade --install gateway deploy/charts/gateway -f deploy/envs/prod.yaml --dry-run
@log 20
⟦e:⟨Error: UPGRADE FAILED: cannot patch "gateway" with kind Ingress¦Error: INSTALLATION FAILED: unable to build kubernetes objects⟩⟧: no matches for kind in version "networking.k8s.io/v1beta1"
A: The chart uses an API that the new cluster no longer has. The template is ⟦p:deploy/charts/gateway/templates/⟨ingress-public.yaml¦edge-ingress.yaml⟩⟧; I'll bring it up to date.
U: ok. Who terminates TLS afterwards? Until now ⟦-d#2:⟨nginx did it with certbot¦HAProxy held the certificates⟩⟧.
A: It can stay that way for the moment.
~
T: bash | terraform -chdir=infra plan
@code 36
Plan: 14 to add, 3 to change, ⟦i:⟨2¦5⟩ to destroy⟧.
A: The plan wants to destroy something. ⟨It's the old NAT gateways, and others still route through them; ⟦d:I excluded nat_legacy from the apply¦Those are peering routes which the office VPN uses, so ⟦d:peering stays in a separate state file⟩⟧.
U: phew. ⟨Always run it with the lock, ⟦d:terraform apply -lock-timeout=5m -target=module.nodes¦From now on please use our wrapper, ⟦d:./ops/tf apply nodes --ticket⟩⟧.
~
U: The change has a ticket by now: ⟦i:⟨CHG¦OPS⟩-⟪num5.t⟫⟧. The security team wants ⟨⟦c:no public load balancers¦⟦c:every pod to run as non-root⟩⟧, they'll scan for it.
T: bash | kubectl --context new get pods -A | grep -v Running
@pods 12
cache-warmer-0   0/1  ⟦e:⟨CreateContainerConfigError: secret "redis-tls" not found¦ImagePullBackOff: 403 from registry mirror⟩⟧
@pods 6
A: One pod doesn't start. That's because the operator for secrets isn't installed there.
~
U: For the switch-over we should bring the TTL down. ⟨I've asked for ⟦i#1:60 seconds as of today¦The DNS people have set it to ⟦i#1:two minutes⟩⟧, forget the former value.
A: Good, that makes the switch nearly instant.
~
U: Networking has spoken: ⟨⟦d#2:cert-manager with the internal CA¦⟦d#2:TLS at the Envoy gateway⟩⟧ is the standard now, the previous arrangement is history.
A> I'll write that.
T: edit_file | ⟦p:deploy/charts/gateway/⟨issuer.yaml¦envoy-listener.yaml⟩⟧ ;; kind: Issuer
written
T: bash | kubectl --context new -n gateway get certificate
@log 6
True
~
A: Load test is done: the gateway holds ⟦i:⟨2,300¦3,900⟩ requests per second⟧ on three nodes, which is about twice our peak.
U: Nice. ⟨The status page is ⟦i:https://status.move.example/fra¦People can follow it on ⟦i:https://statuspage.example/dub-move⟩⟧, post there when it begins.
~
T: bash | velero restore describe nightly --details
@log 22
restored from ⟦i:nightly-⟪num8.b⟫⟧, 0 errors, 3 warnings
A: Restoring the volumes works. ⟨Left over for later: ⟦d:the Grafana dashboards point at the old cluster¦Not migrated so far: ⟦d:alert routes for the night shift⟩⟧.
U: I'll give that to ⟨Sam¦Noor⟩. ⟨We cut over on ⟦i:Saturday, 05:30 UTC¦The window is ⟦i:Tuesday 22:15 UTC⟩⟧, I'll be on the bridge.
~
U: In the meantime go through the remaining charts for that deprecated API.
"#;

const DATABASE: &str = r"#name en-database-upgrade
#ext sql
#root db/migrations
#words account policy claim payout tenant archive ledger session premium
#tools bash read_file grep
#noise table table code log grep json diff git
S: You are a database agent at an insurance company. You plan and rehearse changes on a copy, never on the primary without approval. Tools: bash, read_file, grep, sql, edit_file.
U: Hello. The policies table has reached ⟦i:⟨1.9 billion rows¦840 million rows⟩⟧ and its id is a 32 bit integer. We have to widen it before it runs out. ⟨⟦c:Nothing may lock longer than two seconds¦The call centre needs it all day, so ⟦c:no write pause beyond 5 seconds⟩⟧.
A: Then we can't alter the column in place, that would rewrite the table. Let me look at what hangs on it.
T: sql | select conname, conrelid::regclass from pg_constraint where confrelid = 'policies'::regclass
@table 20
A: Nineteen tables refer to it. I'd add a second column, fill it in the background, then swap.
~
U: How full is it?
T: sql | select last_value, round(100.0 * last_value / 2147483647, 1) from policies_id_seq
 ⟪num10⟫ | ⟦i:⟨88.7¦93.2⟩ percent used⟧
A: At the present pace that leaves about ten weeks.
U: OK then. The rehearsal copy is at ⟦-i#1:⟨db-copy-03.int.example¦pg-rehearse-a.int.example⟩⟧. ⟨⟦c:Personal data must not leave that host¦Please ⟦c:don't dump any names or addresses⟩⟧, not even for tests.
A: I'll only work on ids and counts.
~
A> Here's the first step.
T: edit_file | ⟦p:db/migrations/⟨V212__policy_id_wide.sql¦20260311_add_bigint_id.sql⟩⟧ ;; alter table policies add column id_wide bigint;
written
T: bash | flyway -configFiles=db/rehearsal.conf migrate
@log 16
⟦e:⟨ERROR: 55P03: canceling statement due to lock timeout¦ERROR: 40P01: deadlock detected while adding trigger⟩⟧
@log 4
A: A reporting query held the table. ⟨I'll retry in a loop with a short timeout instead of waiting, ⟦d:lock_timeout 800ms with 50 attempts¦I'd pause the reporting user for that moment; ⟦d:reporting gets revoked during DDL⟩⟧.
~
U: And the backfill? ⟨I'd do it in ⟦-d#2:batches of 100k rows¦My guess would be ⟦-d#2:one big update per month⟩⟧.
A: We can start like that and look at the replicas.
T: bash | ./ops/backfill.sh --rehearse | tail -70
@log 44
WARN replica lag ⟦e:⟨lag 412 s on replica-eu-2¦standby-b fell behind: lag 655 s⟩⟧
A: It works, but one replica falls far behind while it runs.
~
U: That's too much. The portal reads from those. ⟨Can you make it ⟦d#2:5k rows with a pause of 200 ms¦Better: ⟦d#2:slices of 8,000 ids, throttled by lag⟩⟧?
A: Changed and running; the delay stays under a second now. ⟨It's restartable from ⟦p:/var/lib/backfill/policies.cursor¦Progress is kept in ⟦p:/srv/dba/backfill_state.json⟩⟧, should the host reboot.
~
U: heads up, they're rebuilding the rehearsal machine. ⟨Yours is ⟦i#1:db-copy-11.int.example¦You get ⟦i#1:pg-rehearse-f.int.example⟩⟧ instead, with yesterday's state.
A: Moved over. I had to set the extension up again.
T: sql | select extname, extversion from pg_extension
@table 9
~
U: What do we do about the replication slot for the warehouse?
A: ⟨It decodes by column order and would break on the swap. ⟦d:The warehouse slot is recreated after the swap⟧.¦They read the column by name, so ⟦d:a view keeps the old column name alive⟧ until they have changed over.⟩
U: Their contact is ⟦i:⟨dwh-oncall@insure.example¦warehouse-team@insure.example⟩⟧, let them know two days ahead.
~
T: bash | pgbench -f bench/portal.sql -T 300 rehearsal
@log 18
latency average = ⟦i:⟨4.83¦6.17⟩ ms⟧
A: That's the same as before the change, within noise.
U: Good. ⟨Approved as change ⟦i:RFC-⟪num5.r⟫¦The board approved it, it's ⟦i:CAB-⟪num5.r⟫⟩⟧. Rollback in writing please.
A: If something goes wrong before the swap: ⟦d:⟨flyway undo -target=211¦psql -f db/rollback/drop_id_wide.sql⟩⟧. After the swap we go forward only.
~
T: bash | pg_dump --schema-only rehearsal | diff - db/schema_expected.sql
@diff 20
A: ⟨One index differs from the plan: ⟦i:policies_tenant_id_wide_idx¦There's an index that the plan doesn't know, ⟦i:ix_claims_policy_wide⟩⟧, I had added it for the swap and it should stay.
U: Fine. ⟨The restore test on tape is still missing, isn't it? Put it down: ⟦d:tape restore has to be proven by DBA on duty¦We haven't talked about statistics: ⟦d:analyze must be scheduled right after the swap⟩⟧.
~
U: Meanwhile please check the other tables for the same problem.
";

const HANDBOOK: &str = r#"#name en-docs-overhaul
#ext md
#root docs/content
#words guide tutorial sample glossary sidebar redirect version search anchor
#tools terminal read_file grep
#noise doc doc code grep diff git build list
S: You are a technical writer's assistant. You work in a documentation repository built with a static site generator. Write plainly, check links, keep front matter intact.
U: We're redoing the developer docs. ⟨Readers complain that they can't find anything; ⟦i:37 % of searches end without a click¦In the survey ⟦i:only 1 in 5 found the API keys page⟩⟧. I'd like you to go through all of it and reorganise.
T: terminal | find docs/content -name '*.md' | xargs wc -w | sort -n | tail -60
@list 40
A: 212 pages, a third of them with fewer than a hundred words. I'd merge those first.
U: Wait, two things. ⟨⟦c:Existing URLs must keep working¦⟦c:No published link may turn into a 404⟩⟧, they're printed in the manual. ⟨And ⟦c:British spelling throughout¦Also, ⟦c:never write "simply" or "just"⟩⟧, our editor insists.
A: Got it. I'll keep a list of redirects as I go.
~
U: The site generator: we're on ⟦-d#1:⟨Hugo¦MkDocs 1.4⟩⟧. Is that a problem?
A: Not for the texts. The search of the theme is weak, though.
T: terminal | make site 2>&1 | tail -40
@build 24
⟦e:⟨REF_NOT_FOUND: Ref "guide/webhooks#retries"¦WARNING - Doc file contains a link 'auth/scopes.md#legacy'⟩⟧
@build 6
A: There's one broken reference which explains the hole in the navigation: it comes from ⟦p:docs/content/⟨guide/_index.md¦auth/overview.md⟩⟧.
~
A: My proposal for the structure: four parts, sorted by what people want to do. ⟨Reference is generated, hence ⟦d:reference pages are never edited by hand¦The samples rot when they're in prose, so ⟦d:all samples are pulled from the tested repo⟩⟧.
U: I like it. ⟨Versions: show ⟦-c#2:the last three releases¦On the site we need ⟦-c#2:docs for 2.x and 3.x side by side⟩⟧.
~
T: edit_file | ⟦p:docs/⟨redirects.csv¦_redirects.toml⟩⟧ ;; /old/start,/start,301
ok
T: terminal | ./tools/linkcheck --external | tail -50
@log 30
https://partner.example/sdk/old  ⟦e:⟨410 Gone (linked from 14 pages)¦TLS certificate expired 12 days ago⟩⟧
@log 8
A: One external target has a problem, and a lot of our pages point there. ⟨I'd link to the archived copy, ⟦d:dead partner links go to our own mirror¦I'll take the links out, ⟦d:partner SDKs are no longer mentioned⟩⟧.
U: yes
~
U: Can the search be made better without paying for it? The paid one wanted ⟦i:⟨$6,900 a year¦$4,200 per year⟩⟧.
A: There's a static index that works in the browser. ⟨It needs the other generator, though.¦It would come with a newer generator.⟩
U: I've asked the team. ⟨We go to ⟦d#1:Astro Starlight¦They'd be happy with ⟦d#1:Docusaurus⟩⟧, the former one is dropped. It's in epic ⟦i:DOCS-⟪num4.e⟫⟧.
~
T: terminal | npm run build && du -sh dist
@build 22
dist 41M
A: It builds. ⟨To preview a single part: ⟦d:npm run dev -- --only guide --port 4400¦For a quick look locally: ⟦d:npx serve dist --single -l 5055⟩⟧.
U: Works here. ⟨Pages have to ⟦c:load in under 1.5 s on 3G¦We've a rule that ⟦c:no page exceeds 500 KB⟩⟧, I forgot to mention.
~
U: News from support: nobody uses the old major any more. ⟨So ⟦c#2:only the current release is documented¦Therefore ⟦c#2:2.x pages go to a zip archive⟩⟧, that's less work for you.
A: That removes eighty pages. Done.
~
T: terminal | git push && gh run watch
@log 14
preview deployed: ⟦i:https://pr-⟪num3.p⟫.docs-preview.example⟧
A: There's a preview for you. ⟨Images still come from the old bucket ⟦p:gs://docs-assets-2021/img¦The diagrams are in ⟦p:docs/static/diagrams/src.drawio⟩⟧, I left them.
U: Looks good!! ⟨The translators need a freeze by ⟦i:12 June¦Launch is together with the conference on ⟦i:9 September⟩⟧.
A: Noted. ⟨What isn't done: ⟦d:the quota page contradicts the pricing page¦There's one thing I can't decide: ⟦d:who owns the glossary⟩⟧.
~
U: I'll find out. Please proofread the tutorials in the meantime.
"#;

const INCIDENT: &str = r#"#name en-latency-incident
#ext go
#root services/edge
#words route pool session shard cache token tenant probe limiter
#tools sh cat_file rg
#noise log log code pods json grep table
S: You support the on-call engineer of a video platform during incidents and write the review afterwards. You can read logs and metrics, run diagnostics and propose changes. Changes in production are made by the engineer.
U: I got paged, p99 on the edge is at ⟦i:⟨8.4 s¦11.2 s⟩ since 03:1⟨0¦7⟩⟧. Incident ⟦i:INC-⟪num5.n⟫⟧. Can you look at the logs while I open the bridge?
T: sh | journalctl -u edge --since -30min | tail -80
@log 50
edge[⟪num4⟫]: ⟦e:⟨dial tcp 10.8.0.17:6379: i/o timeout¦upstream connect error: reset reason: overflow⟩⟧ (pool exhausted, 512 waiting)
@log 12
A: The session pool is exhausted; every request waits for a connection and gives up after some seconds.
U: ⟨⟦c:Don't restart the edge fleet¦Whatever you propose, ⟦c:no failover to the US region⟩⟧, there's a live match on until ⟨five¦half past four⟩. The pool size is ⟦-i#1:⟨512 connections¦MaxConns=512⟩⟧ I think.
A: Understood. Then I'll look for something that can be changed at run time.
~
T: cat_file | ⟦p:services/edge/⟨pool/dialer.go¦session/lease.go⟩⟧
@code 40
A: The lease isn't returned when a client disconnects in the middle. ⟨This has been there since ⟦i:v4.31.0¦The change that brought it is ⟦i:⟪hex8.h⟫⟩⟧, last week.
U: Could we roll that back?
A: With a rolling deploy, yes, but that is a restart of sorts. ⟨I'd rather lower the idle timeout through the flag service, so ⟦d:leases expire after 20 seconds¦As a stopgap ⟦d:the limiter sheds anonymous traffic first⟩⟧; that needs no deploy.
~
U: ok do we have the command at hand?
A: ⟨Yes: ⟦d:flagctl set edge.lease_ttl 20s --region eu¦This one: ⟦d:edgectl limiter mode shed-anon --for 2h⟩⟧.
U: executed. My first theory is ⟦-d#2:⟨a noisy neighbour on the cache hosts¦a DDoS from one provider⟩⟧, put that into the timeline.
T: sh | promql 'histogram_quantile(0.99, edge_latency)' --last 1h
@table 30
A: It's coming down slowly.
~
U: Customers affected? Comms wants a figure.
T: sh | clickq "select tenant, count() from edge_errors group by tenant order by 2 desc limit 30"
@table 26
A: ⟦i:⟨17¦23⟩ tenants⟧, ⟨the largest being ⟦i:arena-sports-tv¦worst hit is ⟦i:northstream-live⟩⟧. All in Europe.
U: thx. ⟨They have a contract with ⟦c:99.95 % per month¦Their SLA says ⟦c:credits after 45 minutes⟩⟧, so somebody will ask.
~
T: rg | lease.*Release
@grep 20
A: I compared the hosts: those without the new build show none of it. ⟨So it was ⟦d#2:the missing release on disconnect¦Root cause therefore: ⟦d#2:leaked leases on aborted streams⟩⟧, and the first theory can be struck from the timeline.
U: Good, I've struck it.
~
U: The platform team raised the limit meanwhile, ⟨to ⟦i#1:2,048 per host¦it's ⟦i#1:MaxConns=1500⟩⟧ now.
A: I see it, the queue is empty again.
T: sh | go test ./services/edge/... -run Lease -race
@test 18
⟦e:⟨WARNING: DATA RACE in lease.go:77¦panic: lease returned twice [recovered]⟩⟧
FAIL services/edge/session 2.114s
A: The obvious patch has a flaw of its own, which the race detector found. ⟨I'd guard it with a sync.Once: ⟦d:release happens exactly once per lease¦I'd rather move it: ⟦d:the stream owner releases, nobody else⟩⟧.
~
U: Send me the branch when it's green. Reviewer is ⟦i:⟨@tomasz-k¦@yara-b⟩⟧.
T: sh | git push origin HEAD
@git 6
 * [new branch] ⟦i:⟨fix/lease-on-disconnect¦hotfix/stream-abort-leak⟩⟧
A: Pushed. The regression test is in ⟦p:services/edge/session/⟨disconnect_test.go¦abort_stream_test.go⟩⟧.
~
U: For the review document: ⟨we should've been alerted earlier. ⟦d:Alert on pool wait time is missing¦The alarm came from a customer. ⟦d:Somebody must add a saturation alert⟩⟧.
A: Added under follow-ups. ⟨The draft is at ⟦i:https://wiki.example/pm/edge-leases¦You'll find the draft on ⟦i:https://docs.example/postmortem/streams⟩⟧.
~
U: And the credits? ⟨I'm told ⟦c:we don't mention amounts in the review¦Legal says ⟦c:name no customers in the public version⟩⟧.
A: I've taken that into account.
~
U: Let's collect the graphs for the appendix now.
"#;
