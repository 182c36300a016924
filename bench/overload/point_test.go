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
	all, err := appendFinished(nil, strings.NewReader(
		"0 1 1000 0 1700000000 1000\n1 1 failed 0 1700000000 2\n0 2 2500 0 1700000002 500000\n2 1 3000 0 1700000003 500\n3 1 9000000 0 1700000004 1000\n"))
	if err != nil || len(all) != 4 {
		t.Fatal(all, err)
	}
	p = Point{}
	// The run began nine seconds before its last transaction ended: the first second and a half are left out.
	if p.count(all, 7.5); p.TPS != 2/1.5 || p.P50MS != 3 || p.P99MS != 3 || p.MaxMS != 3 {
		t.Errorf("%+v", p)
	}
	if _, err := appendFinished(nil, strings.NewReader("0 1\n")); err == nil {
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
