package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReads(t *testing.T) {
	var p Point
	if err := p.pgbench("number of transactions actually processed: 5\nnumber of failed transactions: 3 (1.5%)\ntps = 812.25 (without initial connection time)\n"); err != nil ||
		p.TPS != 812.25 || p.Failed != 3 {
		t.Errorf("%+v, %v", p, err)
	}
	if p.pgbench("pgbench: error: connection refused") == nil {
		t.Error("a summary without figures is taken")
	}
	const sysbench = `    transactions:                        1234   (246.80 per sec.)
    ignored errors:                      7      (1.40 per sec.)
Latency (ms):
         avg:                                   64.80
         max:                                  912.10
         99th percentile:                      303.33
`
	if err := p.sysbench(sysbench); err != nil || p.TPS != 246.8 || p.Failed != 7 || p.P50MS != 64.8 || p.P99MS != 303.33 || p.MaxMS != 912.1 {
		t.Errorf("%+v, %v", p, err)
	}
	all, err := appendLatencies(nil, strings.NewReader("0 1 3000 0 1700000000 1\n1 1 failed 0 1700000000 2\n0 2 1000 0 1700000000 3\n2 1 2000 0 1 1\n"))
	if err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	if p.percentiles(all); p.P50MS != 2 || p.P99MS != 3 || p.MaxMS != 3 {
		t.Errorf("%+v", p)
	}
	if _, err := appendLatencies(nil, strings.NewReader("0 1\n")); err == nil {
		t.Error("a short line is taken")
	}
}

func TestTableAndDrawing(t *testing.T) {
	points := []Point{
		{Target: "before", Script: "hot-row", Clients: 8, TPS: 2000, P99MS: 5}, {Target: "before", Script: "hot-row", Clients: 800, TPS: 500, P99MS: 2000},
		{Target: "after", Script: "hot-row", Clients: 8, TPS: 2000, P99MS: 5}, {Target: "after", Script: "hot-row", Clients: 800, TPS: 1900, P99MS: 500},
	}
	var b strings.Builder
	printTable(&b, points)
	if want := "| hot-row | 800 | before | 500 | 0.25 | 0.0 | 2000.0 | 800.0 |"; !strings.Contains(b.String(), want) {
		t.Errorf("%s lacks %s", b.String(), want)
	}
	d := xml.NewDecoder(strings.NewReader(string(plot(points))))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
