// The server of `cargo xtask io` on Node.js: HTTP, and lines that are sent back. Argument 1: the folder of /static.
const http = require("http"), net = require("net"), fs = require("fs"), path = require("path");
const folder = process.argv[2];

const server = http.createServer({ keepAliveTimeout: 60000 }, (req, res) => {
  if (req.method === "GET" && req.url === "/hello") {
    res.writeHead(200, { "content-type": "text/plain", "content-length": 5 });
    return res.end("hello");
  }
  if (req.method === "POST" && req.url === "/json") {
    const pieces = [];
    req.on("data", (piece) => pieces.push(piece));
    req.on("end", () => {
      const order = JSON.parse(Buffer.concat(pieces).toString());
      let sum = 0;
      for (const item of order.items) sum += item.price * item.count;
      const body = JSON.stringify({ id: order.id, items: order.items.length, sum, name: order.name });
      res.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
      res.end(body);
    });
    return;
  }
  if (req.method === "GET" && req.url.startsWith("/static/")) {
    const file = path.join(folder, path.normalize(req.url.slice(7)));
    return fs.stat(file, (error, found) => {
      if (error) {
        res.writeHead(404);
        return res.end();
      }
      res.writeHead(200, { "content-type": "application/octet-stream", "content-length": found.size });
      fs.createReadStream(file).pipe(res);
    });
  }
  res.writeHead(404);
  res.end();
});

const lines = net.createServer({ noDelay: true }, (socket) => {
  let rest = "";
  socket.setEncoding("latin1");
  socket.on("error", () => {});
  socket.on("data", (text) => {
    const all = (rest + text).split("\n");
    rest = all.pop();
    for (const line of all) socket.write(line + "\n", "latin1");
  });
});

server.listen(0, "127.0.0.1", () => {
  lines.listen(0, "127.0.0.1", () => {
    console.log(`127.0.0.1:${server.address().port}\t127.0.0.1:${lines.address().port}`);
  });
});
