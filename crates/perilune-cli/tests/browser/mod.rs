//! A real browser without a window, for tests: Chromium, talked to through its debugging pipe (messages of
//! JSON that end with a zero byte).
//!
//! Of JSON only so much is read as is needed: the number of an answer, and a string that an expression gave.

use perilune_test::{Folder, Limited};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A browser with one page.
pub struct Browser {
    child: Limited,
    to: File,
    from: File,
    unread: Vec<u8>,
    messages: u32,
    session: String,
    profile: Folder,
    /// What the page has complained of: errors, exceptions, failed requests.
    pub complaints: Vec<String>,
}

fn pipe() -> [OwnedFd; 2] {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are written; they are ours.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        [OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])]
    }
}

/// The text of a member of JSON that is a string.
fn member(json: &str, name: &str) -> Option<String> {
    let start = format!("\"{name}\":\"");
    let rest = &json[json.find(&start)? + start.len()..];
    let (mut text, mut chars) = (String::new(), rest.chars());
    loop {
        match chars.next()? {
            '"' => return Some(text),
            '\\' => match chars.next()? {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'u' => {
                    let digits: String = chars.by_ref().take(4).collect();
                    text.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?).unwrap_or('?'));
                }
                c => text.push(c),
            },
            c => text.push(c),
        }
    }
}

fn quote(text: &str) -> String {
    let mut s = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => s.extend(['\\', c]),
            c if (c as u32) < 0x20 => s.push_str(&format!("\\u{:04x}", c as u32)),
            c => s.push(c),
        }
    }
    s + "\""
}

impl Browser {
    /// Starts it; `None`, and a line that says so, if there is none on this machine.
    pub fn start(width: u32, height: u32) -> Option<Browser> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path)
            .flat_map(|dir| ["chromium", "chromium-browser", "google-chrome"].map(|name| dir.join(name)))
            .find(|file| file.is_file());
        let Some(program) = found else {
            eprintln!("SKIPPED: there is no chromium on PATH; the viewer's page was not tried in a browser");
            return None;
        };
        let profile = Folder::new();
        let ([its_in, our_out], [our_in, its_out]) = (pipe(), pipe());
        let (read, write) = (its_in.as_raw_fd(), its_out.as_raw_fd());
        let mut command = Command::new(program);
        command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank");
        // SAFETY: only calls that are allowed between fork and exec. The copies keep a descriptor from being
        // overwritten before it has been copied.
        unsafe {
            command.pre_exec(move || {
                let (a, b) = (libc::fcntl(read, libc::F_DUPFD, 10), libc::fcntl(write, libc::F_DUPFD, 10));
                if a < 0 || b < 0 || libc::dup2(a, 3) < 0 || libc::dup2(b, 4) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                libc::close(a);
                libc::close(b);
                Ok(())
            });
        }
        let child = Limited::start_with(&mut command, Stdio::null());
        let mut browser = Browser {
            child,
            to: our_out.into(),
            from: our_in.into(),
            unread: Vec::new(),
            messages: 0,
            session: String::new(),
            profile,
            complaints: Vec::new(),
        };
        let target = browser.call("Target.createTarget", r#"{"url":"about:blank"}"#);
        let target = member(&target, "targetId").expect("a page");
        let attached =
            browser.call("Target.attachToTarget", &format!(r#"{{"targetId":"{target}","flatten":true}}"#));
        browser.session = member(&attached, "sessionId").expect("a session");
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), "{}");
        }
        let size = format!(r#"{{"width":{width},"height":{height},"deviceScaleFactor":1,"mobile":false}}"#);
        browser.call("Emulation.setDeviceMetricsOverride", &size);
        Some(browser)
    }

    /// Calls a method of the protocol; its answer as text.
    pub fn call(&mut self, method: &str, parameters: &str) -> String {
        self.messages += 1;
        let id = self.messages;
        let session = match self.session.as_str() {
            "" => String::new(),
            s => format!(r#","sessionId":"{s}""#),
        };
        let message = format!("{{\"id\":{id},\"method\":\"{method}\",\"params\":{parameters}{session}}}\0");
        self.to.write_all(message.as_bytes()).unwrap();
        loop {
            let message = self.read();
            if message.starts_with(&format!("{{\"id\":{id},")) {
                assert!(!message.contains("\"error\":{"), "{method} {parameters}: {message}");
                return message;
            }
        }
    }

    fn read(&mut self) -> String {
        let end = loop {
            if let Some(end) = self.unread.iter().position(|&b| b == 0) {
                break end;
            }
            let mut piece = [0; 1 << 16];
            let n = self.from.read(&mut piece).unwrap();
            assert!(n > 0, "the browser has ended");
            self.unread.extend_from_slice(&piece[..n]);
        };
        let message: Vec<u8> = self.unread.drain(..=end).collect();
        let message = String::from_utf8_lossy(&message[..end]).into_owned();
        let error = message.contains(r#""method":"Log.entryAdded""#)
            && message.contains(r#""level":"error""#)
            || message.contains(r#""method":"Runtime.consoleAPICalled""#)
                && message.contains(r#""type":"error""#)
            || message.contains(r#""method":"Runtime.exceptionThrown""#);
        if error {
            self.complaints.push(message.clone());
        }
        message
    }

    /// Goes to an address and waits until the page has drawn the trace; how long that took.
    pub fn open(&mut self, url: &str) -> Duration {
        let began = Instant::now();
        self.call("Page.navigate", &format!("{{\"url\":{}}}", quote(url)));
        self.wait_for("!!window.__perilune && __perilune.firstPaint > 0");
        began.elapsed()
    }

    /// The value of an expression as text.
    pub fn js(&mut self, expression: &str) -> String {
        let expression = quote(&format!("(async () => String({expression}))()"));
        let parameters = format!(r#"{{"expression":{expression},"awaitPromise":true,"returnByValue":true}}"#);
        let answer = self.call("Runtime.evaluate", &parameters);
        member(&answer, "value").unwrap_or_else(|| panic!("{expression}: {answer}"))
    }

    /// A number that an expression gives.
    pub fn number(&mut self, expression: &str) -> f64 {
        let text = self.js(expression);
        text.parse().unwrap_or_else(|_| panic!("{expression} gives {text}"))
    }

    /// Waits until an expression is true.
    pub fn wait_for(&mut self, expression: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.js(expression) != "true" {
            assert!(Instant::now() < until, "never came true: {expression}; {:?}", self.complaints);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn mouse(&mut self, what: &str, x: f64, y: f64, more: &str) {
        self.call("Input.dispatchMouseEvent", &format!(r#"{{"type":"{what}","x":{x},"y":{y}{more}}}"#));
    }

    /// Turns the wheel.
    pub fn wheel(&mut self, x: f64, y: f64, by: f64) {
        self.mouse("mouseWheel", x, y, &format!(r#","deltaX":0,"deltaY":{by}"#));
        self.settle();
    }

    /// Clicks.
    pub fn click(&mut self, x: f64, y: f64) {
        self.drag((x, y), (x, y));
    }

    /// Presses at one place and lets go at another.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        let held = r#","button":"left","buttons":1,"clickCount":1"#;
        self.mouse("mouseMoved", from.0, from.1, "");
        self.mouse("mousePressed", from.0, from.1, held);
        for n in 1..=4 {
            let part = n as f64 / 4.0;
            if from != to {
                let (x, y) = (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part);
                self.mouse("mouseMoved", x, y, held);
            }
        }
        self.mouse("mouseReleased", to.0, to.1, r#","button":"left","clickCount":1"#);
        self.settle();
    }

    /// Presses a key: a character, or a name such as `Enter`.
    pub fn key(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        let press = format!(r#"{{"type":"keyDown","key":"{key}","text":"{text}"}}"#);
        self.call("Input.dispatchKeyEvent", &press);
        self.call("Input.dispatchKeyEvent", &format!(r#"{{"type":"keyUp","key":"{key}"}}"#));
        self.settle();
    }

    /// Waits until the page has loaded and drawn what it wants to.
    pub fn settle(&mut self) {
        self.js("await new Promise(done => setTimeout(() => requestAnimationFrame(() => done()), 60))");
        self.wait_for("__perilune.idle()");
    }

    /// Writes what is seen to `$PERILUNE_SCREENSHOTS/NAME.png`, if that is set.
    pub fn screenshot(&mut self, name: &str) {
        let Some(dir) = std::env::var_os("PERILUNE_SCREENSHOTS") else { return };
        let answer = self.call("Page.captureScreenshot", r#"{"format":"png"}"#);
        let data = member(&answer, "data").expect("a picture");
        std::fs::write(Path::new(&dir).join(format!("{name}.png")), from_base64(&data)).unwrap();
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let (mut out, mut word, mut bits) = (Vec::new(), 0u32, 0);
    for c in text.bytes() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        (word, bits) = (word << 6 | digit as u32, bits + 6);
        if bits >= 8 {
            bits -= 8;
            out.push((word >> bits) as u8);
        }
    }
    out
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Asked to, it ends its helpers as well, which would go on writing to the profile for a while.
        let _ = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let until = Instant::now() + Duration::from_secs(5);
        while self.child.is_running() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child.kill();
        for _ in 0..50 {
            if std::fs::remove_dir_all(self.profile.path()).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
