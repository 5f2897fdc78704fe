// Serves Perfetto's trace processor, built as WebAssembly for its UI, as the HTTP API that Perfetto's
// Python package speaks: node server.js FOLDER, with the folder of engine_bundle.js. Prints the port.
// Field and method numbers are those of protos/perfetto/trace_processor/trace_processor.proto.
"use strict";
const fs = require("fs");
const http = require("http");
const path = require("path");
const vm = require("vm");

const REQUEST = 2; // fields of TraceProcessorRpc
const FATAL_ERROR = 5;
const METHODS = {
  "/parse": { number: 1, args: 101, result: 201 },
  "/notify_eof": { number: 2, result: 212 },
  "/query": { number: 3, args: 103, result: 203 },
};

// The bundle is a worker of a page: it loads its module with a synchronous request and then takes a
// port, on which bytes of the stream TraceProcessorRpcStream go both ways. It answers before the
// port's onmessage returns.
function startEngine(folder) {
  class XMLHttpRequest {
    open(_method, address) {
      this.file = path.join(folder, path.basename(address));
    }
    send() {
      this.response = fs.readFileSync(this.file);
    }
  }
  const self = { location: { href: "file:///engine_bundle.js" } };
  const names = { console, performance, setTimeout, TextDecoder, Uint8Array, URL };
  const worker = { self, WorkerGlobalScope: Object, XMLHttpRequest, ...names };
  vm.runInNewContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), worker);
  const replies = [];
  const port = { postMessage: (bytes) => replies.push(Buffer.from(bytes)) };
  self.onmessage({ data: port });
  return (request) => {
    port.onmessage({ data: new Uint8Array(request) });
    return Buffer.concat(replies.splice(0));
  };
}

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
  return Buffer.from([...bytes, value]);
}

function field(number, bytes) {
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

// Pairs of a number and the bytes of each field of a message; of a varint, none.
function* fields(message) {
  let at = 0;
  const read = () => {
    for (let value = 0, scale = 1; ; scale *= 128) {
      const byte = message[at++];
      value += (byte % 128) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const tag = read();
    const size = read();
    if (tag % 8 === 0) continue;
    if (tag % 8 !== 2) throw new Error(`unexpected wire type ${tag % 8}`);
    yield [Math.floor(tag / 8), message.subarray(at, at + size)];
    at += size;
  }
}

function call(engine, method, body) {
  const args = method.args ? field(method.args, body) : Buffer.alloc(0);
  const rpc = Buffer.concat([varint(REQUEST * 8), varint(method.number), args]);
  const results = [];
  for (const [, reply] of fields(engine(field(1, rpc)))) {
    for (const [number, bytes] of fields(reply)) {
      if (number === FATAL_ERROR) throw new Error(bytes.toString());
      if (number === method.result) results.push(bytes);
    }
  }
  return Buffer.concat(results); // messages one after the other are the message merged
}

const engine = startEngine(process.argv[2]);
const server = http.createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const method = METHODS[request.url];
  if (!method) return response.writeHead(404).end();
  response.end(call(engine, method, Buffer.concat(chunks)));
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
