//! Owns the English scripts about a cluster upgrade, ocean buoys, and an app release.

use super::script::Scenario;
use super::words::Lang;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "en-cluster-upgrade",
        lang: Lang::En,
        system: "You are an infrastructure agent. Show plans before you apply them.",
        script: CLUSTER,
    },
    Scenario {
        name: "en-ocean-buoys",
        lang: Lang::En,
        system: "You are a research assistant with a Python environment.",
        script: BUOYS,
    },
    Scenario {
        name: "en-app-release",
        lang: Lang::En,
        system: "You assist a mobile team. Tools: shell, files, web.",
        script: RELEASE,
    },
];

const CLUSTER: &str = r#"
= cl prod-fra-#¦live-ams-#¦blue-osl-#
= ver 1.29.#¦1.30.#¦1.31.#
= ami ami-0??????????¦img-2025-???? ¦node-image-######
= cidr 10.4#.0.0/18¦172.2#.64.0/19¦10.9#.128.0/20
= vault kv/infra/%cl%/etcd¦secret/clusters/%cl%¦kv/ops/%cl%/bootstrap
= chg CHG00#####¦RFC-2###¦CR/####
= room 81##¦45##¦93##
= svc ledger-api¦quote-engine¦ingest-gw
= zone eu-central-1#¦eu-west-3#¦eu-north-1#
U We upgrade %cl% to [[I:Kubernetes %ver%]] this month. Change record: [[I:%chg%]]. Constraints up front: [[C:at most one node drained at a time]], and «you know the drill,¦obviously» [[C:terraform apply needs my explicit yes]].
A Clear. First what is deprecated, then the node groups, then the control plane.
T bash ¦ kubectl get --raw /metrics ¦ metrics ¦ apiserver_requested_deprecated_apis{group="flowcontrol",version="v1beta2",removed="yes"} 1
T bash ¦ pluto detect-all-in-cluster ¦ log ¦ [[E:PodDisruptionBudget policy/v1beta1 is removed]] in use by %svc%
A One hard blocker: %svc% still uses a removed API version. The chart is in [[P:charts/%svc%/templates/pdb.yaml]].
T read ¦ charts/%svc%/templates/pdb.yaml ¦ yaml
U Fix it. The team is fine with it as long as [[C:minAvailable of %svc% stays at 3]].
A Fixed and kept. For the nodes I propose [[~D:upgrading the node groups in place]].
T bash ¦ terraform plan -out tf.plan ¦ plan ¦ Error: [[E:InvalidParameterException: release version is not valid]]
U In place was a disaster last time. [[D:blue/green with fresh node groups]], please, even if it costs a bit.
A Then I create a second set next to the old one. It needs addresses: is there a free range?
U Networking gave us [[I:%cidr%]].
T read ¦ [[P:terraform/live/%cl%/node_groups.tf]] ¦ yaml
T bash ¦ terraform plan -out tf.plan ¦ plan
A The plan adds 14 resources and destroys none. Image: the module picks [[~I:the latest optimized image]] by default.
U Pin it. Security scanned exactly one, namely [[I:%ami%]].
A Pinned. Waiting for your yes.
U Yes, apply.
T bash ¦ terraform apply tf.plan ¦ plan ¦ aws_eks_node_group.green[2]: [[E:InsufficientInstanceCapacity in %zone%]]
A One zone has no capacity for this instance type. Options: wait, or a different type there.
U Different type. [[D:m6a instead of m6i in that zone]]; the price is the same.
T bash ¦ kubectl get nodes -o wide ¦ pods
A Nine green nodes are ready. Etcd snapshot before I go on: where do the credentials live?
U In vault: [[P:%vault%]]. «Never¦And never» print them, [[C:secrets must not show up in this chat]].
T bash ¦ ./bin/etcd-snapshot --cluster %cl% ¦ log ¦ snapshot written to [[P:s3://%cl%-backup/etcd/pre-upgrade.db]]
A The snapshot is in the bucket, 412 MB, checksum verified.
T bash ¦ kubectl drain ip-10-0-3-17 --ignore-daemonsets ¦ pods ¦ error: [[E:global timeout reached: 1m30s]] evicting queue-consumer-0
A The first drain hangs on queue-consumer: it needs more than 90 seconds to finish its jobs.
U It can take [[~I:up to 5 minutes]].
A OK, I raise the grace period accordingly.
T bash ¦ kubectl logs queue-consumer-0 --tail 300 ¦ log ¦ longest job so far ran 11m42s
U Looking at those logs, I was wrong: [[I:allow 15 minutes for queue-consumer]].
A Set. Meanwhile DNS: the green nodes use the node-local cache, the blue ones do not. I [[D:keep node-local DNS on green only]], since mixing it caused the June outage.
U Good memory :)
T bash ¦ kubectl get pods -A -o wide ¦ pods
@01 U Which ingress version goes with it? I assume [[~I:controller 1.9.6]].
@01 T web ¦ https://kubernetes.github.io/ingress-nginx/compatibility ¦ page ¦ <tr><td>%ver%</td><td>[[I:controller 1.11.3]]</td><td>supported</td></tr>
@01 A According to the compatibility table it has to be a newer one, so I bump the chart to the row for our version.
@2 U And the ingress? [[C:the ingress controller is upgraded last]], as usual.
@2 A As usual, then. It is the last item of the list.
T read ¦ [[P:runbooks/upgrade/%cl%-checklist.md]] ¦ doc
U Maintenance window is [[~D:Thursday 01:00 to 03:00 UTC]].
A Noted in the checklist.
T bash ¦ kubectl describe hpa -n %svc% ¦ pods ¦ Warning  FailedGetResourceMetric  4m  [[E:no metrics returned from resource metrics API]]
A On green the autoscaler gets no metrics: the metrics server's certificate lacks the new host names. I [[D:reissue it with the wildcard SAN]].
U Do that. Also the window moved, [[D:Sunday 04:30 UTC, two hours]].
A Updated.
T bash ¦ kubectl top nodes ¦ pods
U After the cut-over [[C:keep the blue group for seven days]], scaled to zero.
T bash ¦ ./bin/smoke --cluster %cl% ¦ log
A The smoke tests pass, 212 of 212. If something breaks, the on-call bridge is [[I:room %room%]], right?
U Right. Thanks, see you on the weekend.
A See you. I leave the plan file in the change record.
"#;

const BUOYS: &str = r#"
= buoy NB-#7#¦WMO 62###¦SK-0##
= raw data/raw/moorings_2024.nc¦archive/ctd/cruise_M18#.csv¦incoming/buoy_dump_##.parquet
= off 0.37 °C¦-0.21 °C¦0.114 °C
= doi 10.5281/zenodo.7######¦10.1594/PANGAEA.9#####¦10.17882/8####
= depth 85 m¦140 m¦32 m
= seed 20##7¦41###¦77##1
= grant OCE-23#####¦NE/X00####/1¦ERC-1010#####
= filt a 25-hour running median¦a Lanczos low-pass at 40 hours¦a Butterworth filter of order 4
U Hi, Ragnhild here. I'm writing the paper about the warm layer in the fjord and need someone who «does the data work¦redoes the analysis cleanly». Raw data is in [[P:%raw%]] and «please,¦really:» [[C:never overwrite anything under raw]].
A Hello Ragnhild! Understood; I write derived files only. May I have a look?
T bash ¦ python -m tools.peek %raw% ¦ csv ¦ 99999,2024-03-02,-99.9,-99.9,fill,instrument removed for service
T read ¦ [[P:analysis/qc/flags.py]] ¦ py
A The fill value is -99.9 and some of it is counted as a measurement at the moment, which pulls the winter mean down.
U Oh dear, so that's why. The main mooring is [[I:%buoy%]], its sensor sits at [[~I:100 m nominal depth]].
T bash ¦ python -m analysis.qc --station '%buoy%' ¦ log ¦ [[E:ValueError: time axis is not monotonic]] at row 18233
A The time axis jumps back once: the logger's clock was set to local time in March. I would [[~D:drop all rows of that week]].
U Not dropping! That's the storm week and the best part of the paper. [[D:shift the affected rows by one hour]] instead.
A That works as well, the overlap is clean. I do it in a separate step with a flag.
T read ¦ analysis/qc/clock.py ¦ py
T bash ¦ pytest analysis -q ¦ pytest ¦ E   AssertionError: [[E:salinity 41.2 outside climatology]]
A A test flags an impossible salinity. It's the conductivity cell after the service.
U Yes, «that cell was fouled.¦known problem.» [[C:no salinity after 14 May may be used]].
A Masked. Are there calibration sheets for the temperature sensor?
U Somewhere in the docs folder.
T bash ¦ ls -R docs/calibration ¦ ls ¦ -rw-r--r-- 1 app app 88211 2025-02-11 [[P:docs/calibration/sbe37_post_cruise.pdf]]
T bash ¦ pdftotext docs/calibration/sbe37_post_cruise.pdf - ¦ doc ¦ Post-deployment check against the reference bath: [[I:offset of %off%]], drift linear.
A The post-cruise sheet gives an offset of %off%, «which is not small¦so it matters» against the signal. I [[D:correct the drift linearly over the deployment]].
U Agreed. I just checked the mooring diagram, too: the sensor was really [[I:at %depth% below surface]], the plan was changed on deck.
A Corrected in the metadata, then the layer is shallower in the figure as well.
T bash ¦ python -m analysis.heat_content ¦ log ¦ RuntimeWarning: [[E:invalid value encountered in log10]]
A For the detiding, I used [[~D:a simple daily mean]].
U Reviewers will eat us alive. Use [[D:%filt%]].
T web ¦ https://www.teos-10.org/pubs/gsw/html/gsw_contents.html ¦ page
A Done, and the tidal residual is now below a hundredth of a degree. I also moved to TEOS-10 for density.
U Good. [[C:all figures in Conservative Temperature]], then, and mention it in the captions.
T bash ¦ python -m analysis.bootstrap --n 5000 ¦ log
A The bootstrap is random, so I fixed [[I:the seed at %seed%]]; the interval is 0.8 to 1.3 degrees.
@02 U And the trend? I remember [[~I:0.31 per decade]].
@02 T bash ¦ python -m analysis.trend --station '%buoy%' ¦ log ¦ theil-sen slope: [[I:0.24 K per decade]] (p=0.003)
@02 A With the clock and the offset corrected, the slope is smaller than what you remember; see the Theil–Sen line.
@1 U And which trend estimator? [[D:Theil-Sen rather than least squares]], because of the outliers.
@1 T bash ¦ python -m analysis.trend --station '%buoy%' ¦ log
@1 A Done, it hardly changes the number but the interval is tighter.
T read ¦ [[P:paper/sections/methods.tex]] ¦ doc
U Co-authors: [[C:Tomasz wants no rainbow colormaps]], he means it.
A Switched to a perceptually uniform one.
T bash ¦ make -C paper ¦ log ¦ LaTeX Error: [[E:File `copernicus.cls' not found]]
A The class of the journal is missing here. Which journal are we aiming at?
U First choice was [[~D:Ocean Science]]. I'll think about it over lunch.
T bash ¦ python -m analysis.figures --all ¦ log
U So, [[D:we submit to JGR Oceans]], the page charges are covered there.
A Good; I changed the template. The figures go to [[P:paper/figs/final/]], vector format.
T bash ¦ python -m tools.crosscheck --against woa23 ¦ csv
U For the acknowledgements, the grant is [[I:%grant%]].
A Added. The data need an archive as well.
T bash ¦ python -m tools.deposit --draft ¦ json ¦   {"id": 1, "state": "draft", "reserved_doi": "[[I:%doi%]]", "embargo": true},
A The deposit is a draft with a reserved DOI. «Shall I publish it?¦Publish now?»
U Not yet: [[C:keep the dataset under embargo until acceptance]].
A It stays a draft.
T bash ¦ make -C paper check ¦ log
U Wonderful, I'm off to the boat. Send me the list of open points tomorrow.
A I will. Have a calm sea!
"#;

const RELEASE: &str = r"
= ver 8.4.#¦5.12.#¦11.0.#
= vc 84####¦512###¦110###
= crash CRSH-?????¦issue 9?????¦xc-??-####
= dev Pixel 6a on Android 14¦Galaxy A52s on Android 13¦Moto G Power on Android 12
= mod feature/player¦feature/offline¦feature/inbox
= ks signing/upload-####.jks¦keys/release_?????.keystore¦certs/play-####.p12
= limit 0.4 percent¦0.25 percent¦0.6 percent
= api https://edge-?.mobi.example/v3¦https://gw##.apps.example/v2¦https://m-api-##.example/v4
U «release week!! 🙃¦Release time again.¦We ship on Wednesday.» [[I:version is %ver%]], [[I:versionCode %vc%]]. there's one crash we have to fix first: [[I:%crash%]], mostly [[I:%dev%]].
A On it. I get the stack trace first.
T bash ¦ ./tools/crash fetch %crash% ¦ trace ¦ java.lang.IllegalStateException: [[E:Fragment already added: SheetDialog]]
T grep ¦ SheetDialog ¦ grep ¦ %mod%/src/main/java/ui/SheetHost.java:88:    sheet.show(fm, TAG);
A It is shown twice when the activity is recreated. The culprit is [[P:%mod%/src/main/java/ui/SheetHost.java]].
U ok. «pls¦please» [[C:don't migrate anything to Compose]] in this branch, someone always tries
A Not tempted. I would [[~D:catch the exception and ignore it]], as a quick fix.
U nah. then the sheet has stale data. [[D:use commitNow and check isStateSaved]]
A Better, yes. That also covers the rotation case.
T read ¦ %mod%/src/main/java/ui/SheetHost.java ¦ java
T bash ¦ ./gradlew :app:testReleaseUnitTest ¦ gradle ¦ SheetHostTest > rotates FAILED: [[E:expected:<1> but was:<2> sheets]]
A The new test fails without the fix, as it should. Now the release build.
T bash ¦ ./gradlew :app:bundleRelease ¦ gradle ¦ ERROR: R8: [[E:Missing class com.squalo.codec.Native]]
A R8 strips something that the codec needs by reflection. I [[D:keep the codec package in proguard-codec.pro]].
U yes. keystore is [[~P:signing/debug-upload.jks]] i think
T bash ¦ ls -l signing keys certs ¦ ls
U wait no, that's an ancient one. it's [[P:%ks%]], password is in 1Password. and [[C:never commit the keystore password]]
A Of course. I read it from the environment.
T bash ¦ bundletool validate --bundle app/build/outputs/bundle/release/app-release.aab ¦ log
A The bundle is valid, 38 MB. Backend: the release config points to [[~I:https://staging.mobi.example]], is that intended?
U omg no!! production is [[I:%api%]]
A Changed in [[P:app/src/release/res/values/endpoints.xml]]; I also added a check that fails the build for staging hosts.
T read ¦ app/src/release/res/values/endpoints.xml ¦ yaml
T bash ¦ ./gradlew lintRelease ¦ gradle ¦ Error: [[E:ExpiredTargetSdkVersion]]: Google Play will reject this from August
U hmm, target sdk. what would that break
T web ¦ https://developer.android.com/about/versions/15/behavior-changes-15 ¦ page
A Mostly edge-to-edge: three screens draw below the status bar. It's a day of work.
U then [[D:raise targetSdk in the next release]], not now. minSdk though: [[C:minSdk stays 26]], car head units need it
A Understood.
T bash ¦ adb shell am instrument -w app.test ¦ log
@01 U who signs off from QA? [[~I:Marisol]] did last time
@01 A I put her on the checklist in [[P:release/checklist-%ver%.md]].
@01 T read ¦ release/checklist-%ver%.md ¦ doc
@01 U she changed teams, [[I:QA sign-off is by Jun-seo]]
@01 A Replaced.
@2 U where's the checklist? oh, [[P:release/checklist-%ver%.md]]. [[C:every item needs two names]]
@2 T read ¦ release/checklist-%ver%.md ¦ doc
@2 A I see four items with one name only and will ask for the second.
T bash ¦ ./tools/size-report ¦ table
A Startup got slower by 120 ms since the last release; it's the eager font loading. I [[D:defer the icon font to the first idle frame]].
U good. rollout plan was [[~D:10 percent on day one]] but the boss is nervous
T bash ¦ ./tools/vitals --last 30d ¦ metrics ¦ # policy: [[C:halt if crash rate exceeds %limit%]]
A The vitals policy has a hard limit for halting, so a careful start is sensible.
U so: [[D:1 percent on day one]], hold for 24 hours
T bash ¦ fastlane supply --track production --rollout 0.01 --validate_only ¦ log ¦ [[E:APK specifies a version code that has already been used]]
A That version code was used by an internal build on Friday.
U ugh. bump by ten then.
T bash ¦ git log --oneline -30 ¦ gitlog
A Done, bumped and rebuilt. Release notes: which languages?
U [[C:release notes in Spanish and Basque too]], legal thing
T read ¦ [[P:fastlane/metadata/android/eu/changelogs/default.txt]] ¦ doc
A Both are written; somebody who speaks Basque should read them.
U amaia will. if all goes wrong: [[D:kill switch is the remote key sheet_v2]]
A Good to know, I tested that it works without a restart.
T bash ¦ ./gradlew :app:bundleRelease ¦ gradle
U ship it 🚢
A Uploaded and waiting for review by the store.
";
