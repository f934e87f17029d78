//! English scripts about data: a pipeline, the training of a model, a piece of research.

pub(super) const SCRIPTS: &[&str] = &[PIPELINE, TRAINING, RESEARCH];

const PIPELINE: &str = r#"#name en-meter-pipeline
#ext py
#root pipelines/meters
#words meter reading tariff grid station interval batch partition customer
#tools bash read_file grep
#noise code code table log grep json test list
S: You are a data engineer for an electricity supplier. You maintain Python pipelines that load meter readings into a warehouse. You have bash, read_file, grep, edit_file and sql.
U: Hi, the ⟨monthly¦quarterly⟩ report for the regulator is off: ⟦i:⟨12,480¦9,316⟩ meters⟧ have no reading for ⟨the last Sunday of March¦the night the clocks changed⟩. I suspect daylight saving. Where would that be handled?
T: grep | tz_localize
@grep 14
⟦p:pipelines/meters/⟨normalise/intervals.py¦load/quarter_hours.py⟩⟧:73:    frame.index = frame.index.tz_localize("Europe/Berlin")
@grep 9
A: There's one place where local time gets attached without saying what to do with the missing hour. Let me run it on that day.
T: bash | python -m pipelines.meters.run --day 2026-03-29 --dry-run
@log 36
Traceback (most recent call last):
  File "pipelines/meters/run.py", line 212, in main
⟦e:⟨pytz.exceptions.NonExistentTimeError: 2026-03-29 02:15:00¦pandas.errors.OutOfBoundsDatetime: cannot convert 02:45 local⟩⟧
A: Confirmed. The loader swallows this in production and skips the batch.
~
U: I see. ⟨Whatever you do, ⟦c:raw files in the landing bucket are read-only¦One rule from legal: ⟦c:the landing zone may never be modified⟩⟧, we need them as evidence. And results have to be reproducible, ⟨⟦c:running a day twice must not change anything¦i.e. ⟦c:a second run has to give the same rows⟩⟧.
A: Understood. ⟨I'd do everything in UTC and only convert for display: ⟦d:UTC inside, local time only in reports⟧.¦I'd stop attaching zones in the middle: ⟦d:timestamps become UTC at the very first step⟧, since the devices know their offset.⟩
~
U: Loading is with ⟦-d#1:⟨pandas 1.5¦plain pandas⟩⟧ at the moment, is that good enough?
A: For one day yes. For the reload of a year I'd worry about memory; I'll measure it.
T: bash | /usr/bin/time -v python -m pipelines.meters.run --month 2026-02 --dry-run
@log 28
Command terminated by signal 9
⟦e:⟨Out of memory: Killed process 20417 (python)¦MemoryError: Unable to allocate 11.2 GiB⟩⟧
A: As feared. A month doesn't fit.
~
U: Then let's use something else. ⟨I've had good experience with ⟦d#1:polars in streaming mode¦Colleagues swear by ⟦d#1:duckdb over the parquet files⟩⟧. The machine has ⟦i:⟨16 GB¦24 GB⟩ of RAM⟧ and won't get more.
A: I'll rewrite the two heavy steps with it and leave the rest alone.
~
A> The new step.
T: edit_file | ⟦p:pipelines/meters/steps/⟨scan_readings.py¦fold_readings.py⟩⟧ ;; def scan(day): return source(day).filter(valid).group_by("meter_id")
ok
T: bash | pytest -q pipelines/meters
@test 34
34 passed in 12.8s
~
U: The regulator expects the corrected file ⟦-i#2:⟨on April 30¦by the 15th of May⟩⟧. Is that realistic?
A: Yes, the reload itself should take two nights. ⟨I'll use the queue ⟦i:bulk-reload-eu¦It'll run in the slot named ⟦i:night-batch-2⟩⟧ so that it doesn't get in the way of the daily loads.
~
T: sql | select station, count(*) from readings_gaps group by 1 order by 2 desc limit 25
@table 25
A: Most gaps are explained, but station ⟦i:⟨DE-NW-0417¦DE-BY-2209⟩⟧ has been silent for three weeks, for a different reason: its gateway sends the serial number with a leading blank.
U: Ha. ⟨Please trim it on our side, ⟦d:the vendor won't fix their firmware¦Trim it then; ⟦d:we can't wait for the gateway update⟩⟧.
~
U: Bad news, they've shortened our time. ⟨The file is now wanted ⟦i#2:a week earlier, April 23¦They want to see the file ⟦i#2:before May 6⟩⟧.
A: Tight, but feasible if the reload starts tonight. I'd start it with ⟦d:⟨python -m pipelines.meters.reload --from 2025-01 --workers 3¦make reload YEAR=2025 PARALLEL=4⟩⟧.
U: Do it. Tell me the run id.
T: bash | airflow dags trigger meters_reload
@log 12
Created <DagRun meters_reload @ ⟦i:⟪uuid.r⟫⟧: queued>
A: It's queued, and I'll check on it from time to time.
~
T: sql | select day, rows_in, rows_out, rows_in - rows_out as lost from reload_audit order by day limit 40
@table 30
A: Input and output agree for every day so far. ⟨Checksums live in ⟦p:s3://meter-audit/2025/checksums.parquet¦I keep the comparison in ⟦p:s3://meter-audit/reload/diff.csv⟩⟧ should anyone ask.
U: Very good. ⟨Anything with less than ⟦c:99.5 % coverage per station¦Stations with less than ⟦c:98 % of intervals per day⟩⟧ needs a comment in the file, that's in the regulation.
~
A: Three stations need a comment. ⟨I haven't written those: ⟦d:somebody has to ask field service about them¦The texts aren't mine to invent: ⟦d:grid operations must explain the three outages⟩⟧.
U: I'll forward it. In the meantime please tidy up the notebook folder.
"#;

const TRAINING: &str = r#"#name en-classifier-training
#ext py
#root trainer
#words batch encoder label checkpoint sampler tokenizer epoch metric dataset
#tools bash read_file grep
#noise train train code log grep json test list
S: You are an assistant to an ML team. You can run jobs on a small cluster, read logs and edit training code. Be careful with GPU hours.
U: We want to retrain the ⟨claims¦complaints⟩ classifier. ⟨The budget is ⟦c:400 GPU hours in total¦We've been given ⟦c:250 GPU hours for everything⟩⟧, failed runs included. Last time somebody burnt half of it on a typo.
A: I'll do dry runs on a sliver of the data first.
T: bash | cat trainer/README.md | head -80; sinfo
@list 26
A: There are two partitions; I'd use the smaller one for tests.
~
U: Base model is ⟦-d#1:⟨deberta-v3-base¦xlm-roberta-base⟩⟧ as last year. And please ⟨⟦c:don't train on tickets from minors¦⟦c:leave out everything with the health flag⟩⟧, legal was very clear about it.
T: bash | python -m trainer.filter --stats
@table 22
A: ⟨The filter drops ⟦i:3,204 records¦After filtering we lose ⟦i:7,881 records⟩⟧, all of them by that rule. I wrote the list of the remaining ones to ⟦p:⟨/data/claims/splits/train_v7.jsonl¦/mnt/corpora/complaints/clean_04.jsonl⟩⟧.
~
T: bash | sbatch jobs/smoke.sh && sleep 240 && tail -50 runs/smoke/stdout.txt
@train 30
⟦e:⟨RuntimeError: CUDA error: device-side assert triggered¦ValueError: Target 31 is out of bounds.⟩⟧
srun: error: gpu-⟪num2⟫: task 0: Exited with exit code 1
A: A label index out of range: there's one category more in the new data than in the config. ⟨The newcomer is "storm damage".¦The newcomer is "parcel lost abroad".⟩
U: Oh right. ⟨Fold it into the existing ones: ⟦d:storm damage counts as weather¦We merge it: ⟦d:lost abroad is treated as lost⟩⟧. Too few examples for a class of its own.
~
U: What learning rate do you plan?
A: I'd start at ⟦-i#2:⟨lr 5e-5¦lr 3e-5⟩⟧ with warm-up over the first six percent of steps.
T: bash | sbatch jobs/full.sh --name run-a
Submitted batch job ⟦i:⟪num7.j⟫⟧
~
T: bash | tail -n 60 runs/run-a/stdout.txt
@train 44
step   4450 | loss nan | ⟦e:⟨grad_norm inf, skipping update¦FloatingPointError: loss became NaN at step 4450⟩⟧
A: It diverged soon after the warm-up. That rate is too high for batches of this size. ⟨I'm restarting with ⟦i#2:lr 1.5e-5 and clipping at 0.5¦Next attempt runs with ⟦i#2:lr 8e-6 and clip 1.0⟩⟧.
~
U: How do we judge it? ⟨Management looks at one number only, ⟦c:macro F1 of 0.82 or better¦For the launch we need ⟦c:recall above 0.90 on fraud⟩⟧.
A: I'll report that one first then. ⟨For picking the checkpoint I'd go by the validation loss per class; ⟦d:early stopping watches the worst class¦To avoid fooling ourselves ⟦d:the test set stays sealed until the end⟩⟧.
~
T: bash | python -m trainer.eval --run run-b --split dev
@table 18
A: Promising: two points above last year's at the same epoch.
U: Hmm, there's a licence problem. ⟨The lawyers don't like the weights we start from. They've cleared ⟦d#1:modernbert-large¦Compliance wants us off that base. What they allow is ⟦d#1:mdeberta from the internal hub⟩⟧, so please switch to it.
A: I'll restart from there. It costs about ⟦i:⟨61¦38⟩ GPU hours⟧, still within what we have.
~
T: bash | python -m trainer.convert --check
@log 16
tokenizer vocabulary differs, cached features in ⟦p:⟨/scratch/feat_cache_0412¦/scratch/tokens_v2_mmap⟩⟧ are stale
A: The cached features belong to the former tokenizer; training on them would silently give garbage. I've deleted them and they are being rebuilt.
~
U: Is the run logged somewhere I can watch it?
A: Yes: ⟦i:https://wandb.example/ml-team/runs/⟪hex8.w⟫⟧. ⟨If it has to be resumed: ⟦d:python -m trainer.fit --resume last --no-shuffle¦Should the node die, it continues with ⟦d:torchrun --standalone trainer/fit.py --resume auto⟩⟧.
~
T: bash | ls -la runs/run-c/checkpoints && tail -20 runs/run-c/stdout.txt
@train 20
saved ⟦p:runs/run-c/checkpoints/⟨step_18400.safetensors¦epoch3_best.safetensors⟩⟧
A: That's the best one so far, and by the number you gave it passes.
U: Great!! ⟨The seed should go into the model card, was it ⟦i:seed 20817¦Which seed? I've noted ⟦i:seed 90125⟩⟧.
A: Yes, that one. ⟨What's missing in the card: ⟦d:the bias section for regional names¦I left one part of the card empty: ⟦d:energy consumption is still to be measured⟩⟧.
~
U: Fine, I'll ask around. Please compare the confusion matrices of both runs meanwhile.
"#;

const RESEARCH: &str = r#"#name en-desalination-research
#ext md
#root notes
#words membrane pump brine plant tariff intake filter energy permit
#tools run read_note search_notes
#noise doc doc doc grep json table list
S: You are a research assistant. You collect sources for a consulting firm, keep notes in a folder and write short, sourced statements. Tools: run, read_note, search_notes, web_fetch, write_note.
U: We're writing a brief on small desalination plants for ⟨an island council in the Cyclades¦a coastal municipality in Baja California⟩. ⟨It's for Eleni, at most ⟦-c#1:twelve pages¦Reader is the mayor, so keep it to ⟦-c#1:ten pages max⟩⟧. Let's begin with the energy side.
T: web_fetch | https://journals.example/desal/energy-review
@doc 40
The median over 41 plants was ⟦i:⟨3.4 kWh per cubic metre¦2.9 kWh per cubic metre⟩⟧, intake included.
@doc 10
A: I've got a usable figure for the energy demand with a decent sample behind it, and noted the source.
~
U: Good. A word on sources: ⟨⟦c:nothing from manufacturers' brochures¦⟦c:only peer-reviewed or official material⟩⟧, the client got burnt with that. And ⟨money always ⟦c:in euros of 2024¦give costs ⟦c:in US dollars, not pesos⟩⟧.
A: All right. I've removed two leaflets from the folder.
~
T: web_fetch | https://registry.example/permits/brine
@doc 30
Discharge of brine is subject to ⟦i:⟨Directive 2008/56/EC, Annex III¦NOM-001-SEMARNAT-2021⟩⟧ and needs a dispersion study.
@doc 8
A: So a dispersion study is unavoidable. ⟨I'd treat it as a fixed cost; ⟦d:permitting goes into the base case¦That changes the structure: ⟦d:permits get a chapter of their own⟩⟧, because it decides the schedule.
~
U: How many people would it serve? ⟨I was told ⟦-i#2:4,200 residents¦My number is ⟦-i#2:18,000 inhabitants⟩⟧.
A: I'll take that as the basis and mark it as an assumption.
T: write_note | ⟦p:notes/⟨demand_model.md¦water_balance.md⟩⟧ ;; Demand: residents, seasonal visitors, losses in the network
saved
~
T: run | python calc/demand.py --season summer
@table 20
⟦e:⟨ValueError: peak factor missing for August¦KeyError: 'losses_network_pct'⟩⟧
A: The script lacks one input. ⟨I'd take the August peak from the ferry statistics: ⟦d:visitors are counted by ferry arrivals¦I'd set the network losses to what the utility reported, ⟦d:losses are assumed at 31 percent⟩⟧.
U: Fine by me.
~
T: web_fetch | https://stats.example/census/table-7
@table 24
A: The census is out. ⟨It gives ⟦i#2:5,130 permanent residents¦According to it there are ⟦i#2:22,640 people⟩⟧, so the figure you were told is outdated; I have replaced it everywhere.
U: oh good catch
~
U: Which technology do we recommend in the end, what do you think?
A: ⟨Reverse osmosis with solar and a grid backup. Batteries alone don't pay; ⟦d:storage is done in water tanks¦Reverse osmosis, built in two stages, since ⟦d:a second train can be added after year five⟩⟧. Thermal processes are out at this size.
U: And who operates it? ⟨There's a regional utility, contact is ⟦i:k.vlachos@nera.example¦Talk to the state water commission, ⟦i:proyectos@cea-bc.example⟩⟧.
~
T: search_notes | membrane replacement interval
@grep 22
notes/interviews/⟦p:⟨2026-02-11_plant_operator.md¦ensenada_visit.md⟩⟧:31: "we change membranes every five years, the cartridge filters every six weeks"
A: The interview gives the only first-hand numbers on maintenance; I'll quote it by date.
~
U: The client called. ⟨They've seen the draft outline and would like it shorter: ⟦c#1:eight pages plus annex¦They'll read it on a phone, so ⟦c#1:six pages is the new limit⟩⟧.
A: Then the comparison of vendors goes to the annex.
T: run | wc -w notes/*.md
@list 18
~
A: The total comes to ⟦i:⟨2.7 million euros¦11.4 million dollars⟩⟧ for the base case, ⟨plus or minus 20 percent¦with a range of a quarter either way⟩.
U: ok. ⟨Put the sheet under ⟦p:deliverables/annex_b_costs.xlsx¦The spreadsheet should be in ⟦p:deliverables/cost_model_v3.xlsx⟩⟧ please. They'll check it.
~
T: web_fetch | https://doi.example/lookup?title=brine+dispersion
@json 20
"doi": "⟦i:10.5555/⟨desal.2023.0417¦mardisp.2022.118⟩⟧"
A: This is the study everybody cites on the dispersion; it supports the distance of the outfall. ⟨One gap remains: ⟦d:no data on jellyfish blooms at the intake¦What I couldn't find: ⟦d:sediment levels after storms⟩⟧.
U: Mention it as a gap, that's honest.
~
U: ⟨The presentation is on ⟦i:June 18 at 10:30¦We present it on ⟦i:July 2 at 16:00⟩⟧ by the way, their time. Could you check all footnotes before that?
A: I'll go through them one by one.
~
U: Thanks. And please look for pictures we're allowed to use.
"#;
