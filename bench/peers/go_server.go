// Owns: Go's net/http as a peer: the same answers as performance_test.
//
//	go_server PORT TLS_PORT FILES CERTIFICATE KEY
package main

import (
	"bytes"
	"crypto/tls"
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
	if len(os.Args) != 6 {
		log.Fatal("usage: go_server PORT TLS_PORT FILES CERTIFICATE KEY")
	}
	mime.AddExtensionType(".bin", "application/octet-stream") // else it reads 512 bytes of the file to find out
	mux := http.NewServeMux()
	mux.HandleFunc("/", answer("text/plain", []byte("Hello, World!")))
	mux.HandleFunc("/large/100kb", answer("application/octet-stream", bytes.Repeat([]byte("a"), 100*1024)))
	mux.Handle("/static/", http.StripPrefix("/static/", http.FileServer(http.Dir(os.Args[3]))))
	// HTTP/2 is off, which none of the others speak here.
	secure := &http.Server{Addr: "127.0.0.1:" + os.Args[2], Handler: mux, ErrorLog: log.New(io.Discard, "", 0),
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
	go func() { log.Fatal(secure.ListenAndServeTLS(os.Args[4], os.Args[5])) }()
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], mux))
}
