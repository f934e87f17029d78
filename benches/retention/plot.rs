//! The plot of the retention benchmark: bars as SVG, readable on light and dark pages.

use std::fmt::Write as _;

use super::score::{Result, Way};

const WIDTH: u32 = 760;
const PANEL: u32 = 230;
const TOP: u32 = 46;
const BAR: u32 = 44;
const LEFT: u32 = 56;

/// One panel for each generator: a group of bars for each share.
pub(crate) fn draw(results: &[Result]) -> String {
    let measured =
        |generator: &str| results.iter().any(|result| result.generator == generator && result.sessions > 0);
    let generators = super::report::GENERATORS.iter().map(|(generator, _)| *generator);
    let generators: Vec<&str> = generators.filter(|generator| measured(generator)).collect();
    let height = TOP + PANEL * generators.len() as u32 + 8;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>Share of planted facts that the view still tells after a compression</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    legend(&mut svg);
    for (place, generator) in (0..).zip(generators) {
        panel(&mut svg, TOP + place * PANEL, generator, results);
    }
    svg.push_str("</svg>\n");
    svg
}

fn colour(way: Way) -> &'static str {
    match way {
        Way::Extractive => "#1a6fb4",
        Way::Rounds => "#7fb2dc",
        Way::Prune => "#e08a1e",
        Way::Window => "#7a9a3a",
        Way::DropOldest => "#9a9a9a",
    }
}

fn legend(svg: &mut String) {
    for (place, way) in (0..).zip(Way::ALL) {
        let x = LEFT + place * 136;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"14\" width=\"12\" height=\"12\" fill=\"{}\"/>\
             <text x=\"{}\" y=\"24\" fill=\"#222222\">{}</text>",
            colour(way),
            x + 18,
            way.as_str()
        );
    }
}

fn panel(svg: &mut String, top: u32, generator: &str, results: &[Result]) {
    let (high, base) = (PANEL - 60, top + PANEL - 36);
    for percent in [0, 25, 50, 75, 100] {
        let y = base - high * percent / 100;
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"#dddddd\"/>\
             <text x=\"{}\" y=\"{}\" fill=\"#555555\" text-anchor=\"end\">{percent} %</text>",
            WIDTH - 20,
            LEFT - 8,
            y + 4
        );
    }
    let mut x = LEFT + 24;
    for percent in super::SHARES {
        let start = x;
        for way in Way::ALL {
            let found = results
                .iter()
                .find(|result| (result.generator, result.percent, result.way) == (generator, percent, way));
            let share = found.map_or(0.0, |result| result.all.share()).max(0.0);
            let tall = f64::from(high) * share / 100.0;
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{:.1}\" width=\"{}\" height=\"{tall:.1}\" fill=\"{}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" fill=\"#222222\" text-anchor=\"middle\">{share:.0}</text>",
                f64::from(base) - tall,
                BAR - 6,
                colour(way),
                x + BAR / 2 - 3,
                f64::from(base) - tall - 4.0
            );
            x += BAR;
        }
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" fill=\"#222222\" text-anchor=\"middle\">to {percent} % of the tokens ({generator} generator)</text>",
            (start + x) / 2 - 3,
            base + 18
        );
        x += 100;
    }
}
