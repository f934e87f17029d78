//! Small talk: owns the turns that people and agents take without saying anything that has to be kept.

use super::Rng;
use super::noise::{Setting, VERBS};

/// Talk in the language of a session. Longer exchanges are used once each before they come again.
pub(super) struct Talk {
    pub(super) japanese: bool,
    order: Vec<usize>,
    next: usize,
}

impl Talk {
    pub(super) fn new(japanese: bool, rng: &mut Rng) -> Self {
        let count = if japanese { JA_EXCHANGES.len() } else { EN_EXCHANGES.len() };
        let mut order: Vec<usize> = (0..count).collect();
        for at in (1..count).rev() {
            order.swap(at, rng.below(at + 1));
        }
        Self { japanese, order, next: 0 }
    }

    /// What a user asks or says in passing, and the answer.
    pub(super) fn exchange(&mut self, rng: &mut Rng, setting: &Setting) -> (String, String) {
        if self.next >= self.order.len() || rng.chance(60) {
            let details = if self.japanese { &JA_DETAILS } else { &EN_DETAILS };
            let (asks, answers) = details[rng.below(details.len())];
            return filled_pair(asks, answers, rng, setting);
        }
        let at = self.order[self.next];
        self.next += 1;
        let (asks, answers) = if self.japanese { JA_EXCHANGES[at] } else { EN_EXCHANGES[at] };
        (asks.to_owned(), answers.to_owned())
    }

    /// The user lets it go on.
    pub(super) fn nudge(&self, rng: &mut Rng) -> String {
        rng.pick(if self.japanese { &JA_NUDGES } else { &EN_NUDGES }).to_owned()
    }

    /// The assistant says that it does.
    pub(super) fn answer(&self, rng: &mut Rng) -> String {
        rng.pick(if self.japanese { &JA_ANSWERS } else { &EN_ANSWERS }).to_owned()
    }

    /// What is said with a call.
    pub(super) fn lead_in(&self, rng: &mut Rng, setting: &Setting) -> String {
        filled(rng.pick(if self.japanese { &JA_LEADS } else { &EN_LEADS }), rng, setting)
    }

    /// What is said after a result that matters.
    pub(super) fn taken_in(&self, rng: &mut Rng) -> String {
        rng.pick(if self.japanese { &JA_TAKEN_IN } else { &EN_TAKEN_IN }).to_owned()
    }

    /// What is said after any other result.
    pub(super) fn wrap_up(&self, rng: &mut Rng, setting: &Setting) -> String {
        let texts: &[&str] = match (self.japanese, rng.chance(60)) {
            (true, true) => &JA_REMARKS,
            (true, false) => &JA_WRAPS,
            (false, true) => &EN_REMARKS,
            (false, false) => &EN_WRAPS,
        };
        filled(rng.pick(texts), rng, setting)
    }
}

fn filled(text: &str, rng: &mut Rng, setting: &Setting) -> String {
    filled_pair(text, "", rng, setting).0
}

/// Two texts with the same things in them: % is a word, @ a file, # a number, ^ a name.
fn filled_pair(one: &str, other: &str, rng: &mut Rng, setting: &Setting) -> (String, String) {
    let (word, file, number) = (setting.word(rng), setting.file(rng), rng.between(12, 940).to_string());
    let name = format!("{}_{}", rng.pick(&VERBS), setting.word(rng));
    let with =
        |text: &str| text.replace('%', &word).replace('@', &file).replace('#', &number).replace('^', &name);
    (with(one), with(other))
}

const EN_NUDGES: [&str; 16] = [
    "ok, go on",
    "Sounds good.",
    "yep",
    "Sure, carry on.",
    "go ahead",
    "Alright, I'm around if you need me.",
    "fine by me",
    "👍",
    "Great, keep going please.",
    "mm ok, what's next?",
    "Makes sense to me.",
    "Thanks! Next?",
    "continue",
    "cool cool",
    "Back from lunch, where are we?",
    "Got it, please proceed.",
];

const EN_ANSWERS: [&str; 10] = [
    "On it.",
    "Will do, one moment.",
    "Thanks, continuing with the next step.",
    "Understood, I'll keep reading and report back.",
    "Sure. I'm about halfway through the files I wanted to look at.",
    "Okay! Nothing to report yet, still reading.",
    "Right, picking up where I left off.",
    "Good. I'll take the next part now.",
    "Thank you, that helps. Let me look further.",
    "Continuing.",
];

const EN_LEADS: [&str; 14] = [
    "Let me look at how the % side is laid out.",
    "Checking the % part next.",
    "I want to see what % does here before touching anything.",
    "Quick look around first.",
    "Let me see what else mentions %.",
    "Reading on.",
    "Let me get an overview of %.",
    "One more file, then I'll have the picture.",
    "Looking at the neighbours of %.",
    "Let me double-check that with the actual output.",
    "I'll skim this for anything about %.",
    "Same again for %.",
    "Let me see whether it looks the same over here.",
    "Just making sure nothing else is affected.",
];

const EN_WRAPS: [&str; 12] = [
    "Nothing surprising there, % looks the way I expected.",
    "OK, that's consistent with what we saw before.",
    "I've gone through that; the % part reads fine.",
    "That's all in order as far as I can tell.",
    "Nothing in there that concerns us.",
    "Fine, so % isn't involved here.",
    "That took a while to read, but there's nothing to change in it.",
    "Looks healthy.",
    "Good, I've seen enough of %.",
    "Okay, no surprises with %.",
    "That's the usual picture.",
    "I had a look; % is as boring as one hopes.",
];

const JA_NUDGES: [&str; 16] = [
    "はい、続けてください",
    "お願いします。",
    "了解です",
    "いい感じですね、そのまま進めてください。",
    "👍",
    "うん、次いこう",
    "なるほど。続きお願いします",
    "ありがとう、引き続きよろしく。",
    "OKです",
    "席外してました。今どんな感じですか?",
    "わかりました。進めちゃってください",
    "はーい",
    "助かります。次は?",
    "問題なさそうですね。",
    "それで大丈夫です",
    "ふむふむ、続けて",
];

const JA_ANSWERS: [&str; 10] = [
    "承知しました。続けます。",
    "はい、少々お待ちください。",
    "ありがとうございます。次の部分を見ていきます。",
    "了解です。まだ読んでいる途中なので、終わったら報告しますね。",
    "半分くらいまで目を通したところです。もう少しかかります。",
    "はい、このまま進めます。",
    "では続きから再開します。",
    "わかりました。いまのところ特に報告することはありません。",
    "承知です。順番に確認していきますね。",
    "はい、引き続き見ていきます。",
];

const JA_LEADS: [&str; 14] = [
    "% まわりの構成を見てみます。",
    "次に % を確認します。",
    "手を入れる前に、% が何をしているか見ておきます。",
    "まずは全体をざっと眺めます。",
    "ほかに % を参照している箇所を探します。",
    "続きを読みます。",
    "% の概要をつかんでおきます。",
    "もう1ファイルだけ確認させてください。",
    "% の周辺も見ておきます。",
    "実際の出力で確かめてみます。",
    "% に関係しそうなところを流し読みします。",
    "% についても同じように見ます。",
    "こちらも同じ状態か確認します。",
    "影響が広がっていないか、念のため見ておきます。",
];

const JA_WRAPS: [&str; 12] = [
    "特に気になるところはありませんでした。% は想定どおりです。",
    "さきほど見た内容と一致しています。",
    "ひととおり読みましたが、% は問題なさそうです。",
    "ここは正常ですね。",
    "今回の件に関係しそうな記述はありませんでした。",
    "% は無関係のようです。",
    "少し長かったですが、変更が必要な箇所はありません。",
    "健全に見えます。",
    "% についてはもう十分把握できました。",
    "% も変わったところはないですね。",
    "いつもどおりの内容でした。",
    "確認しました。% は平和そのものです。",
];

const EN_TAKEN_IN: [&str; 6] = [
    "Done, that's recorded.",
    "There we are.",
    "I've got that, on to the next thing.",
    "That went as shown above.",
    "Here's the result.",
    "See the output above.",
];

const JA_TAKEN_IN: [&str; 6] = [
    "上のとおりです。",
    "完了しました。",
    "記録しました。次に進みます。",
    "結果は以上です。",
    "出力を確認しました。",
    "ここまで終わりました。",
];

const EN_REMARKS: [&str; 14] = [
    "`@` has # lines and calls `^` in two places; both look harmless.",
    "There's a comment in `@` about % that dates from 2021, I left it alone.",
    "`^` gets called # times during start-up. A bit much, but not our topic.",
    "I counted # mentions of %, most of them in tests.",
    "Line # of `@` has a typo in a comment, nothing else.",
    "It seems that somebody began to rename % and stopped halfway; `^` still has the old spelling. It works, though.",
    "That run took # ms, which is in the usual range for %.",
    "The % part goes through `^`, then through `@`, and comes out the same as before.",
    "One deprecation warning about `^`, from a library. It'll go away by itself with their next release.",
    "The odd-looking number # in there is only a default for local development.",
    "For the record, `@` was last changed # days ago, by the bot.",
    "Two of the % entries have no description. Cosmetic.",
    "I first thought `^` was the cause of the warning on line #, but that's printed for every run.",
    "There's a retry in `@` (up to # ms), it did its job once and then all was fine.",
];

const JA_REMARKS: [&str; 14] = [
    "`@` は # 行で、`^` を二か所から呼んでいますが、どちらも無害です。",
    "`@` に % についての2021年のコメントが残っていましたが、そのままにしておきます。",
    "`^` は起動時に # 回呼ばれていました。やや多いですが、今回の話とは別です。",
    "% への言及は # 件あり、ほとんどがテストの中でした。",
    "`@` の # 行目のコメントに誤字があるだけでした。",
    "% の改名が途中で止まっているようで、`^` だけ古い綴りのままです。動作には影響ありません。",
    "今回の実行は # ミリ秒で、% としては普段どおりの範囲です。",
    "% は `^` を通って `@` に入り、以前と同じ形で出てきます。",
    "`^` に関する非推奨の警告が一つ出ていますが、ライブラリ側のもので、次の版で消えるはずです。",
    "途中に出てくる # という値は、ローカル開発用の初期値にすぎません。",
    "ちなみに `@` の最終更新は # 日前で、ボットによるものでした。",
    "% のうち二つは説明が空欄ですが、見た目だけの問題です。",
    "最初は # 行目の警告の原因が `^` かと思いましたが、毎回出ているものでした。",
    "`@` の再試行(最大 # ミリ秒)が一度働いて、その後は正常です。",
];

const EN_DETAILS: [(&str, &str); 10] = [
    ("Does `^` handle an empty %?", "Yes. It returns early around line # of `@`, and there's a test for it."),
    ("What was # again, in the output just now?", "Just the number of % entries it went through."),
    ("who calls `^`?", "Only `@`, and a test. Nothing outside of this folder."),
    (
        "Is `@` still in use? I thought we'd removed it.",
        "It's still imported by the % code, in # places if one counts the tests.",
    ),
    (
        "Hm, # ms for %, isn't that slow?",
        "It's the first call, which also warms up. The ones after it take a tenth of that.",
    ),
    (
        "I remember something about % and `^` from last year, was there a bug?",
        "There was, and it got fixed back then; `@` has the test. It doesn't come up here.",
    ),
    ("can you show me where the % comes from", "From `^`, which reads it in `@` near line #."),
    (
        "Jonas asks whether you've changed anything in `@`.",
        "No, I only read it. The last change there is # days old.",
    ),
    (
        "Would it make sense to rename `^`?",
        "It would read better, but it's used in # places, so not in passing.",
    ),
    (
        "My editor marks line # of `@` in red, is it me?",
        "It's your editor: the file is fine for the compiler, the % plugin is a bit behind.",
    ),
];

const JA_DETAILS: [(&str, &str); 10] = [
    (
        "`^` って % が空のときも大丈夫でしたっけ",
        "はい。`@` の # 行目あたりで早めに戻っていて、テストもあります。",
    ),
    ("さっきの出力に出てた # って何の数字ですか?", "処理した % の件数です。それ以上の意味はありません。"),
    ("`^` を呼んでるのはどこですか", "`@` とテストだけです。このフォルダの外からは使われていません。"),
    (
        "`@` ってまだ使ってます? 消したつもりでした",
        "% の処理から参照されています。テストも含めると # か所です。",
    ),
    ("% に # ミリ秒って遅くないですか", "初回なので準備の時間が入っています。二回目以降は十分の一ほどです。"),
    (
        "去年 % と `^` で何かあった気がするんですが、バグでしたっけ",
        "ありましたが、当時のうちに直っています。`@` にそのテストがあります。今回は関係しません。",
    ),
    ("% ってどこから来てるのか教えてください", "`^` が `@` の # 行目付近で読み込んでいます。"),
    ("田中さんが「`@` を触った?」と聞いてます", "いいえ、読んだだけです。最後の変更は # 日前のものです。"),
    (
        "`^` の名前、変えたほうがよくないですか",
        "読みやすくはなりますが、# か所で使われているので、ついでに変えるのは避けたほうがよさそうです。",
    ),
    (
        "エディタで `@` の # 行目が赤くなるんですけど、うちだけ?",
        "エディタ側の問題ですね。ファイル自体は正しく、% 用のプラグインが少し古いようです。",
    ),
];

const EN_EXCHANGES: [(&str, &str); 14] = [
    (
        "Random question while that runs: what's the difference between optimistic and pessimistic locking again?",
        "Optimistic locking assumes that conflicts are rare: you read a row together with a version, do your work, and at write time you check that the version hasn't moved. If it has, you retry or report it. Pessimistic locking takes the lock up front, so that nobody else can get in while you work. The first is nicer for short edits by many people, the second for long critical sections where a retry would be expensive. Most web applications are happy with the first one.",
    ),
    (
        "my cat just walked over the keyboard, sorry if anything weird got sent",
        "Ha, no harm done, nothing arrived here. Give the cat my regards.",
    ),
    (
        "Can you explain in two sentences why people prefer composition over inheritance? A junior asked me in the hallway.",
        "With inheritance a class gets everything of its parent whether it wants it or not, and a change up there can break things far below. With composition it holds the parts that it needs and talks to them through small interfaces, so each piece can be swapped and tested on its own.",
    ),
    (
        "How was that word again... when the same request can be sent twice without harm?",
        "Idempotent. A PUT that sets a value is, a POST that appends one usually isn't, unless the client sends a key by which the server recognises the repeat.",
    ),
    ("It's raining sideways here. Anyway.", "Good weather for reading source code, then."),
    (
        "Is it normal that the fans spin up like this?",
        "During a full scan of the tree, yes. It reads a few thousand files and the editor's indexer tends to wake up at the same time. It should calm down in a minute or so.",
    ),
    (
        "Do you prefer tabs or spaces",
        "Whatever the formatter of the project says; I've no wish to start that war in here.",
    ),
    (
        "Sorry, stand-up took forever. People discussed the colour of a button for ten minutes.",
        "A classic. I used the time to read; shall I go on from where I was?",
    ),
    (
        "what does CAP stand for, consistency availability ...?",
        "Partition tolerance. When the network splits, a system has to choose whether it keeps answering with possibly old data, or refuses to answer until the halves agree. When the network is healthy you don't have to choose, which is why the more useful question is often how it behaves in latency terms on a normal day.",
    ),
    (
        "I'd like to understand the layout better, how do you usually read an unknown code base?",
        "I start from the edges: what comes in (routes, commands, queues) and what goes out (tables, files, calls to others). Then I follow one request all the way through, reading only what it touches. Names repeat, and after two or three such walks the structure is mostly visible. Tests are a good second source, since they show what the authors were afraid of. The history comes last, when something looks odd and I want to know whether it was on purpose.",
    ),
    ("need coffee, brb", "Enjoy. I'll keep reading in the meantime."),
    (
        "When would one use a bloom filter in practice?",
        "When a lookup is expensive and most of the things looked up aren't there. The filter says 'certainly not' or 'maybe', and only the maybes go to the disk or over the network. Databases do it per file, browsers did it for lists of bad sites, caches do it to avoid storing things that are asked for only once.",
    ),
    (
        "That's a lot of output. Do you actually read all of this?",
        "I do, though most of it only confirms that nothing is wrong. I'll keep to short remarks and leave the raw output to the log.",
    ),
    ("By the way the new office chairs have arrived", "Congratulations to everyone's backs."),
];

const JA_EXCHANGES: [(&str, &str); 14] = [
    (
        "待ってる間にちょっと雑談なんですけど、楽観ロックと悲観ロックってどう使い分けるのが普通ですか?",
        "楽観ロックは「衝突はめったに起きない」という前提で、読み込んだときのバージョンを書き込み時に照合し、ずれていたらやり直す方式です。悲観ロックは最初に鍵を取ってしまい、作業が終わるまで他の人を待たせます。短い編集を大勢で行う画面なら前者、やり直しのコストが高い長い処理なら後者が向いています。一般的なWebアプリでは前者で足りることが多いですね。",
    ),
    (
        "すみません、猫がキーボードに乗りました",
        "大丈夫です、何も届いていませんよ。猫さんによろしくお伝えください。",
    ),
    ("今日めちゃくちゃ雨ですね", "コードを読むにはいい天気かもしれませんね。"),
    (
        "後輩に「なんで継承より委譲なんですか」って聞かれたんですが、短く説明するとしたら?",
        "継承だと親クラスの都合をまるごと引き受けることになり、親の変更が遠くの子まで壊します。委譲なら必要な部品だけを持ち、小さな窓口ごしに使うので、差し替えやテストがしやすい、という説明でどうでしょうか。",
    ),
    (
        "同じリクエストを二回送っても平気なやつ、なんて言うんでしたっけ",
        "冪等(べきとう)ですね。値を設定するPUTは冪等ですが、追加するPOSTは普通はそうではありません。クライアントが識別用のキーを付けて、サーバー側で重複に気づけるようにすることもあります。",
    ),
    (
        "朝会が長引きました……ボタンの色の話で10分くらい",
        "よくある光景ですね。その間に読み進めておきました。続きから再開しましょうか。",
    ),
    (
        "ファンがすごい勢いで回ってるんですけど大丈夫ですかね",
        "全体を走査している間は普通です。数千ファイルを読むうえに、エディタのインデックス作成も同時に動きがちなので。しばらくすれば落ち着くと思います。",
    ),
    (
        "知らないコードベースってどういう順番で読むんですか?",
        "外側から読むことが多いです。まず入口(ルーティング、コマンド、キュー)と出口(テーブル、ファイル、外部呼び出し)を見て、次に一つのリクエストを端から端まで追います。通り道だけを読むのがコツで、二、三回繰り返すと名前が重なってきて、全体の構造が見えてきます。テストは作者が何を怖がっていたかが分かるので、二番目の資料として優秀です。履歴を見るのは、変だと思った箇所がわざとなのか知りたくなってからですね。",
    ),
    ("コーヒー淹れてきます", "いってらっしゃいませ。その間も読み進めておきます。"),
    (
        "ブルームフィルタって実務だとどこで使うんです?",
        "「たいてい存在しないもの」を高いコストで探す場面ですね。フィルタは「絶対にない」か「あるかもしれない」だけを答えるので、後者のときだけディスクやネットワークを見に行きます。データベースのファイル単位の判定や、一度しか参照されないものをキャッシュに載せない工夫などに使われています。",
    ),
    (
        "出力すごい量ですね、全部読んでるんですか",
        "はい、一応すべて目を通しています。ほとんどは「問題なし」の確認ですが。報告は短めにしておきますね。",
    ),
    ("そういえば新しい椅子が届きました", "それは腰に朗報ですね。"),
    (
        "CAP定理のPって何でしたっけ",
        "Partition tolerance、分断耐性です。ネットワークが分断されたとき、古いかもしれないデータで答え続けるか、そろうまで答えないかを選ぶことになります。平常時はそもそも選ばなくてよいので、実務では普段の応答時間のほうが話題になりやすいですね。",
    ),
    (
        "タブ派ですか、スペース派ですか",
        "プロジェクトのフォーマッタに従う派です。その戦争には加わらないことにしています。",
    ),
];
