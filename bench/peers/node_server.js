// Owns: Node's http, https and http2 as peers: the same answers as performance_test, files left out (Node has no file server).
//
//   node node_server.js PORT TLS_PORT CERTIFICATE KEY http1|h2
'use strict';
const fs = require('fs');
const http = require('http');
const http2 = require('http2');
const https = require('https');

const [port, tlsPort, certificate, key, protocol] = process.argv.slice(2);
const bodies = {
    '/': ['text/plain', 'Hello, World!'], // a string is joined with the head, a buffer is not
    '/large/100kb': ['application/octet-stream', Buffer.alloc(100 * 1024, 'a')],
};

function answer(req, res) {
    const found = bodies[req.url];
    if (!found) {
        res.writeHead(404).end();
        return;
    }
    res.writeHead(200, {'Content-Type': found[0], 'Content-Length': found[1].length});
    res.end(found[1]);
}

// The core API of http2: its compatibility API, which looks like http, costs more.
function answerStream(stream, headers) {
    const found = bodies[headers[':path']];
    if (!found) {
        stream.respond({':status': 404}, {endStream: true});
        return;
    }
    stream.respond({':status': 200, 'content-type': found[0], 'content-length': found[1].length});
    stream.end(found[1]);
}

const secrets = {cert: fs.readFileSync(certificate), key: fs.readFileSync(key)};
if (protocol === 'h2') {
    http2.createServer().on('stream', answerStream).listen(Number(port), '127.0.0.1');
    http2.createSecureServer(secrets).on('stream', answerStream).listen(Number(tlsPort), '127.0.0.1');
} else {
    const options = {keepAliveTimeout: 60000};
    http.createServer(options, answer).listen(Number(port), '127.0.0.1');
    https.createServer({...options, ...secrets}, answer).listen(Number(tlsPort), '127.0.0.1');
}
