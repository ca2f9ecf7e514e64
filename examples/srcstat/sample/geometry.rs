//! Points and boxes on a grid.

/// A place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: i64,
    pub y: i64,
}

/// The points between two corners, both included.
pub struct Area {
    pub low: Point,
    pub high: Point,
}

impl Area {
    pub fn new(a: Point, b: Point) -> Area {
        let low = Point { x: a.x.min(b.x), y: a.y.min(b.y) };
        let high = Point { x: a.x.max(b.x), y: a.y.max(b.y) };
        Area { low, high }
    }

    pub fn contains(&self, p: Point) -> bool {
        /* Both corners belong to the area. */
        self.low.x <= p.x && p.x <= self.high.x && self.low.y <= p.y && p.y <= self.high.y
    }

    pub fn size(&self) -> i64 {
        (self.high.x - self.low.x + 1) * (self.high.y - self.low.y + 1)
    }
}

pub fn describe(area: &Area) -> String {
    // The text has braces and a comment mark in it: "{ // }".
    let mut text = String::from("{ // ");
    for (name, p) in [("low", area.low), ("high", area.high)] {
        text.push_str(name);
        text.push_str(&format!(" {},{}", p.x, p.y));
        if p.x < 0 || p.y < 0 {
            text.push_str(" (outside the first quadrant)");
        }
    }
    text.push('}');
    text
}
