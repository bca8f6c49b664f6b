// Owns: Node's http and https as peers: the same answers as performance_test, files left out (Node has no file server).
//
//   node node_server.js PORT TLS_PORT CERTIFICATE KEY
'use strict';
const fs = require('fs');
const http = require('http');
const https = require('https');

const [port, tlsPort, certificate, key] = process.argv.slice(2);
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

const options = {keepAliveTimeout: 60000};
http.createServer(options, answer).listen(Number(port), '127.0.0.1');
https.createServer({...options, cert: fs.readFileSync(certificate), key: fs.readFileSync(key)}, answer)
    .listen(Number(tlsPort), '127.0.0.1');
