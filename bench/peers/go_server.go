// Owns: Go's net/http as a peer: the same answers as performance_test.
//
//	go_server PORT TLS_PORT FILES CERTIFICATE KEY http1|h2
package main

import (
	"bytes"
	"io"
	"log"
	"mime"
	"net/http"
	"os"
	"strconv"
)

func answer(kind string, body []byte) http.HandlerFunc {
	size := strconv.Itoa(len(body))
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", size)
		w.Write(body)
	}
}

func main() {
	if len(os.Args) != 7 {
		log.Fatal("usage: go_server PORT TLS_PORT FILES CERTIFICATE KEY http1|h2")
	}
	mime.AddExtensionType(".bin", "application/octet-stream") // else it reads 512 bytes of the file to find out
	mux := http.NewServeMux()
	mux.HandleFunc("/", answer("text/plain", []byte("Hello, World!")))
	mux.HandleFunc("/large/100kb", answer("application/octet-stream", bytes.Repeat([]byte("a"), 100*1024)))
	mux.Handle("/static/", http.StripPrefix("/static/", http.FileServer(http.Dir(os.Args[3]))))
	// One protocol at a time: a server of HTTP/1 does not look for a preface.
	h2 := os.Args[6] == "h2"
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2)
	protocols.SetHTTP2(h2)
	protocols.SetUnencryptedHTTP2(h2)
	serve := func(port string) *http.Server {
		return &http.Server{Addr: "127.0.0.1:" + port, Handler: mux, ErrorLog: log.New(io.Discard, "", 0), Protocols: protocols}
	}
	go func() { log.Fatal(serve(os.Args[2]).ListenAndServeTLS(os.Args[4], os.Args[5])) }()
	log.Fatal(serve(os.Args[1]).ListenAndServe())
}
