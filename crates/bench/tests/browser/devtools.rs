//! A small client of the protocol that Chromium's developer tools speak: enough to open a page,
//! click, hover, take pictures, and hear what the page complains of and asks the network for.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use data_encoding::BASE64;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::{Message, WebSocket};

use crate::picture::Picture;

/// How long an answer may take: the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(60);
const ANNOUNCEMENT: &str = "DevTools listening on ";

/// A browser with one page.
pub struct Browser {
    process: Child,
    socket: WebSocket<Connection>,
    session: Option<String>,
    calls: u64,
    events: Vec<Value>,
    _profile: TempDir,
}

/// A stream that reads on when it is interrupted: to wait with a time limit fails so when the
/// process is stopped and goes on, signal or not (signal(7) of Linux).
struct Connection(TcpStream);

impl Read for Connection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

impl Write for Connection {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.0.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Browser {
    /// Starts a browser and opens a file in it.
    pub fn open(page: &Path) -> Browser {
        let profile = TempDir::new().expect("a directory for the browser");
        let mut process = start(profile.path());
        let address = announced_address(&mut process);
        let (_, place) = address.split_once("//").expect("an address");
        let (host, _) = place.split_once('/').expect("a host");
        let stream = TcpStream::connect(host).expect("the browser listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let stream = Connection(stream);
        let (socket, _) = tungstenite::client(address.as_str(), stream).expect("a web socket");
        let mut browser = Browser {
            process,
            socket,
            session: None,
            calls: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        let url = format!("file://{}", page.display());
        browser.call("Page.navigate", json!({ "url": url }));
        browser.wait_for("Page.loadEventFired");
        browser
    }

    /// Sends a command and waits for its answer.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let id = self.calls;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.socket
            .send(Message::text(command.to_string()))
            .expect("the browser listens");
        loop {
            let mut message = self.receive();
            if message["id"] == json!(id) {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    fn receive(&mut self) -> Value {
        loop {
            let message = self.socket.read().expect("the browser answers in time");
            if let Message::Text(text) = message {
                return serde_json::from_str(&text).expect("the browser speaks JSON");
            }
        }
    }

    fn wait_for(&mut self, event: &str) {
        while !self.events.iter().any(|message| message["method"] == event) {
            let message = self.receive();
            self.events.push(message);
        }
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true,
        });
        let mut answer = self.call("Runtime.evaluate", params);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].take()
    }

    /// The number that an expression gives.
    pub fn number(&mut self, expression: &str) -> f64 {
        let value = self.value(expression);
        value
            .as_f64()
            .unwrap_or_else(|| panic!("{expression}: {value}"))
    }

    /// The text that an expression gives.
    pub fn text(&mut self, expression: &str) -> String {
        let value = self.value(expression);
        let text = value
            .as_str()
            .unwrap_or_else(|| panic!("{expression}: {value}"));
        text.to_owned()
    }

    /// Moves the pointer to the middle of the first element that a selector names.
    pub fn hover(&mut self, selector: &str) -> (f64, f64) {
        let place = self.value(&format!(
            "(async () => {{ const found = document.querySelector({selector:?}); \
             found.scrollIntoView({{ block: 'center', behavior: 'instant' }}); \
             // The page hears of the scrolling with the next frame.\n\
             const frame = () => new Promise(requestAnimationFrame); await frame(); await frame(); \
             const box = found.getBoundingClientRect(); \
             return [box.left + box.width / 2, box.top + box.height / 2]; }})()"
        ));
        let at = (
            place[0].as_f64().expect("left"),
            place[1].as_f64().expect("top"),
        );
        self.mouse("mouseMoved", at);
        at
    }

    /// Clicks on the middle of the first element that a selector names.
    pub fn click(&mut self, selector: &str) {
        let at = self.hover(selector);
        self.mouse("mousePressed", at);
        self.mouse("mouseReleased", at);
    }

    /// Clicks on a link and waits until the page behind it is there. Until then the page may not
    /// be asked anything: it goes, and what was asked of it fails.
    pub fn follow(&mut self, selector: &str) {
        self.events.clear();
        self.click(selector);
        self.wait_for("Page.loadEventFired");
    }

    fn mouse(&mut self, kind: &str, (x, y): (f64, f64)) {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let params = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": 1 });
        self.call("Input.dispatchMouseEvent", params);
    }

    /// Chooses an option of a list as a person would: the page hears of it.
    pub fn choose(&mut self, selector: &str, value: &str) {
        self.value(&format!(
            "(() => {{ const list = document.querySelector({selector:?}); list.value = {value:?}; \
             list.dispatchEvent(new Event('change')); }})()"
        ));
    }

    /// The size of the window in CSS pixels; a narrow one is a phone.
    pub fn resize(&mut self, width: u32, height: u32) {
        let params = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.call("Emulation.setDeviceMetricsOverride", params);
        // The page hears of it, and draws anew, with its next frames.
        self.value(
            "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(drawn, 50))))",
        );
    }

    /// What the system prefers, and whether the page is shown or printed.
    pub fn show_as(&mut self, medium: &str, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let params = json!({ "media": medium, "features": features });
        self.call("Emulation.setEmulatedMedia", params);
    }

    /// A picture of the whole page.
    pub fn picture(&mut self) -> Picture {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.call("Page.captureScreenshot", params);
        Picture::decode(&decoded(&answer["data"]))
    }

    /// The page as it would be printed.
    pub fn pdf(&mut self) -> Vec<u8> {
        let answer = self.call("Page.printToPDF", json!({ "printBackground": true }));
        decoded(&answer["data"])
    }

    /// Errors and warnings that the page or the browser reported.
    pub fn complaints(&self) -> Vec<String> {
        let is_complaint = |message: &&Value| match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                message["params"]["type"] == "error" || message["params"]["type"] == "warning"
            }
            Some("Log.entryAdded") => message["params"]["entry"]["level"] != "verbose",
            _ => false,
        };
        self.events
            .iter()
            .filter(is_complaint)
            .map(ToString::to_string)
            .collect()
    }

    /// Every address that was asked for.
    pub fn requests(&self) -> Vec<String> {
        let requests = self
            .events
            .iter()
            .filter(|message| message["method"] == "Network.requestWillBeSent");
        requests
            .filter_map(|message| message["params"]["request"]["url"].as_str())
            .map(str::to_owned)
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw);
        // It may have ended by itself.
        let _ended = group.map(|group| kill_process_group(group, Signal::KILL));
        let _reaped = self.process.wait();
    }
}

fn start(profile: &Path) -> Child {
    let mut command = Command::new(browser_path());
    command.args([
        "--headless=new",
        "--remote-debugging-port=0",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--no-default-browser-check",
        "--hide-scrollbars",
        "--force-color-profile=srgb",
    ]);
    if rustix::process::geteuid().is_root() {
        // Chromium's sandbox does not work for root.
        command.arg("--no-sandbox");
    }
    command
        .arg(format!("--user-data-dir={}", profile.display()))
        .env("HOME", profile)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the browser starts")
}

/// The script that fetches the browser is the only one to know where it is.
fn browser_path() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fetch-browser");
    let found = Command::new(script)
        .arg("--path")
        .output()
        .expect("scripts/fetch-browser");
    let said = String::from_utf8_lossy(&found.stderr);
    assert!(found.status.success(), "{said}");
    String::from_utf8(found.stdout)
        .expect("UTF-8")
        .trim_end()
        .to_owned()
}

/// What the browser says about where it listens; what else it says is read to its end, so that
/// it never waits for a reader.
fn announced_address(process: &mut Child) -> String {
    let mut said = BufReader::new(process.stderr.take().expect("standard error"));
    let mut before = String::new();
    loop {
        let mut line = String::new();
        let read = said.read_line(&mut line).expect("standard error");
        assert!(read > 0, "the browser ended: {before}");
        if let Some(address) = line.strip_prefix(ANNOUNCEMENT) {
            let address = address.trim_end().to_owned();
            std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
            return address;
        }
        before.push_str(&line);
    }
}

fn decoded(data: &Value) -> Vec<u8> {
    let text = data.as_str().expect("data");
    BASE64.decode(text.as_bytes()).expect("base64")
}
