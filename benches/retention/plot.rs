//! The plot of the retention benchmark: bars as SVG, readable on light and dark pages.

use std::fmt::Write as _;

use super::report::Row;
use super::score::Way;

const WIDTH: u32 = 760;
const PANEL: u32 = 230;
const TOP: u32 = 46;
const BAR: u32 = 34;
const LEFT: u32 = 56;
/// Groups of bars beside each other.
const GROUPS: usize = 4;
const COLOURS: [&str; 4] = ["#1a6fb4", "#e08a1e", "#7a9a3a", "#9a9a9a"];

/// Returns a panel for the generators and one for the rounds: a group of bars for each row.
pub(crate) fn draw(rows: &[Row]) -> String {
    let panels = ["facts kept after one compression", "instructions of the user known in six rounds"];
    let height = TOP + PANEL * panels.len() as u32 + 8;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>What a view still has after compressions</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for ((place, way), colour) in (0..).zip(Way::ALL).zip(COLOURS) {
        let x = LEFT + place * 150;
        rect(&mut svg, x, 14.0, 12, 12.0, colour);
        label(&mut svg, x + 18, 24.0, "start", way.as_str());
    }
    for ((place, title), rows) in (0..).zip(panels).zip(rows.chunks(GROUPS)) {
        panel(&mut svg, TOP + place * PANEL, title, rows);
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, top: u32, title: &str, rows: &[Row]) {
    let (high, base) = (PANEL - 70, top + PANEL - 36);
    label(svg, LEFT, f64::from(top) + 14.0, "start", title);
    for percent in [0, 25, 50, 75, 100] {
        let y = base - high * percent / 100;
        let end = WIDTH - 20;
        let _ = writeln!(svg, "<line x1=\"{LEFT}\" y1=\"{y}\" x2=\"{end}\" y2=\"{y}\" stroke=\"#dddddd\"/>");
        label(svg, LEFT - 8, f64::from(y + 4), "end", &format!("{percent} %"));
    }
    let mut x = LEFT + 16;
    for row in rows {
        let start = x;
        for (share, colour) in row.shares.iter().zip(COLOURS) {
            let tall = f64::from(high) * share.max(0.0) / 100.0;
            let y = f64::from(base) - tall;
            rect(svg, x, y, BAR - 6, tall, colour);
            label(svg, x + BAR / 2 - 3, y - 4.0, "middle", &format!("{share:.0}"));
            x += BAR;
        }
        label(svg, u32::midpoint(start, x) - 3, f64::from(base) + 18.0, "middle", &row.short);
        x += 32;
    }
}

fn rect(svg: &mut String, x: u32, y: f64, width: u32, height: f64, colour: &str) {
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y:.1}\" width=\"{width}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
    );
}

fn label(svg: &mut String, x: u32, y: f64, anchor: &str, text: &str) {
    let _ =
        writeln!(svg, "<text x=\"{x}\" y=\"{y:.1}\" fill=\"#222222\" text-anchor=\"{anchor}\">{text}</text>");
}
