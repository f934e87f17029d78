//! Between rewrites each body repeats the one before it, up to the first call that was open in that one.

use contextstore::render::Provider;
use contextstore_providers::histories::{History, Taste, tools};

use crate::view::{View, options};

/// What stands for a result that never came.
const MISSING: &[u8] = b"[no result: the call was interrupted]";
/// What may stand behind the last message: what closes it, and what is said for the user.
const TAIL: usize = 100;

fn common(a: &[u8], b: &[u8]) -> usize {
    // Most of it is the same, and whole pieces are compared faster.
    const PIECE: usize = 256;
    let pieces = a.chunks(PIECE).zip(b.chunks(PIECE)).take_while(|(a, b)| a == b);
    let same: usize = pieces.map(|(a, _)| a.len()).sum();
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

/// Up to where a body has to be repeated: its end, or the first of the calls that are open in it.
fn lasting(body: &[u8], open: usize) -> usize {
    let places: Vec<usize> = memchr::memmem::find_iter(body, MISSING).collect();
    let end = if open > 0 { places[places.len() - open] } else { body.len() };
    // What opens the result, too.
    end.saturating_sub(if open > 0 { TAIL + 150 } else { TAIL })
}

#[test]
fn each_body_extends_the_last_one() {
    let tools = tools().to_string();
    for provider in Provider::ALL {
        let (mut compared, mut repeated, mut whole) = (0, 0, 0);
        for seed in 0..60 {
            let history = History::with(seed, Taste { large_images: false, lone_surrogates: true });
            let with_tools = if seed % 4 == 0 { "" } else { &tools };
            let mut view = View::default();
            let mut last: Option<(Vec<u8>, usize)> = None;
            for message in &history.messages {
                view.append(message);
                let options = options(provider, r#"{"max_tokens":100,"stream":true}"#, with_tools);
                let body = view.render(options.clone());
                assert_eq!(body, view.render(options), "the same view gives the same bytes");
                if let Some((before, open)) = last {
                    let (wanted, found) = (lasting(&before, open), common(&before, &body));
                    assert!(
                        found >= wanted,
                        "{}: {found} of {wanted} bytes are repeated\n{}\n{}\n{}",
                        provider.as_str(),
                        String::from_utf8_lossy(&before),
                        String::from_utf8_lossy(&body),
                        history.describe()
                    );
                    compared += 1;
                    repeated += found;
                    whole += before.len();
                }
                last = Some((body, view.open_calls()));
            }
        }
        assert!(compared > 500 && repeated * 10 > whole * 9, "{repeated} of {whole} bytes in {compared}");
    }
}
