--------------------------- MODULE ParallelCommit ---------------------------
(* Parallel commit with recovery (SIGMOD'20 3.1; commit/doc.go, commit.CR1 to commit.CR4).                                             *)
(*                                                                                                                       *)
(* A transaction writes all keys. Its coordinator sends the writes and the STAGING record side by side. When all are     *)
(* there, none later than the record says, it is committed and the client hears; afterwards the record is made COMMITTED. *)
(* If a write came later, because somebody has read the key, the coordinator commits explicitly at the later time.        *)
(* Coordinators die at any moment; messages arrive late or never. Observers find a transaction in their way at any        *)
(* moment: they abort one without a record, and recover one that is staging. Several may do so at once, and the           *)
(* coordinator may be alive, because nobody can know (an expiry is a guess).                                              *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Txns, Keys, Observers, MaxTime,
          Prevent,     \* TRUE: who asks for a write that is missing prevents it (commit.CR4)
          CompareTime  \* TRUE: the coordinator compares the writes' times with the record's

None == "none"
Times == 0..MaxTime

VARIABLES
  coord,    \* coordinator: "idle", "sent" (record and writes on their way), "late" (commits explicitly), "told", "dead"
  acked,    \* transactions whose client has heard of the commit
  msgs,     \* on their way; a message that is never delivered is lost
  answers,  \* per transaction: writes that were answered, with the time of the intent
  staged,   \* the coordinator has heard that the record is there
  record,   \* status of the record
  at,       \* its time
  intent,   \* per key: whose, and when; or nobody's
  floor,    \* per key: nothing is written at or below this any more (the timestamp cache)
  values,   \* per key: the transactions whose writes are committed there
  asked     \* per observer and transaction: what recovery has found

Symmetry == Permutations(Txns) \cup Permutations(Keys) \cup Permutations(Observers)

vars == <<coord, acked, msgs, answers, staged, record, at, intent, floor, values, asked>>

NoIntent == [txn |-> None, time |-> 0]
Idle == [state |-> "idle", time |-> 0, found |-> {}, missing |-> FALSE]
Max(a, b) == IF a > b THEN a ELSE b
Begins == 1 \* the time at which all transactions begin

Init ==
  /\ coord = [t \in Txns |-> "idle"]
  /\ acked = {}
  /\ msgs = {}
  /\ answers = [t \in Txns |-> {}]
  /\ staged = [t \in Txns |-> FALSE]
  /\ record = [t \in Txns |-> None]
  /\ at = [t \in Txns |-> 0]
  /\ intent = [k \in Keys |-> NoIntent]
  /\ floor = [k \in Keys |-> 0]
  /\ values = [k \in Keys |-> {}]
  /\ asked = [o \in Observers |-> [t \in Txns |-> Idle]]

(* The coordinator. *)

Send(t) ==
  /\ coord[t] = "idle"
  /\ coord' = [coord EXCEPT ![t] = "sent"]
  /\ msgs' = msgs \cup {[kind |-> "stage", txn |-> t, key |-> None, time |-> Begins]}
                  \cup {[kind |-> "write", txn |-> t, key |-> k, time |-> Begins] : k \in Keys}
  /\ UNCHANGED <<acked, answers, staged, record, at, intent, floor, values, asked>>

AllThere(t) == staged[t] /\ {a.key : a \in answers[t]} = Keys
Latest(t) == CHOOSE n \in Times : /\ \E a \in answers[t] : a.time = n
                                  /\ \A a \in answers[t] : a.time <= n

Tell(t) == \* implicitly committed: the client hears, and the record is told later
  /\ coord[t] = "sent" /\ AllThere(t)
  /\ CompareTime => Latest(t) <= Begins
  /\ coord' = [coord EXCEPT ![t] = "told"]
  /\ acked' = acked \cup {t}
  /\ msgs' = msgs \cup {[kind |-> "commit", txn |-> t, key |-> None, time |-> Begins]}
  /\ UNCHANGED <<answers, staged, record, at, intent, floor, values, asked>>

Explicit(t) == \* a write is later than the record: not committed yet
  /\ coord[t] = "sent" /\ AllThere(t) /\ CompareTime /\ Latest(t) > Begins
  /\ coord' = [coord EXCEPT ![t] = "late"]
  /\ msgs' = msgs \cup {[kind |-> "commit", txn |-> t, key |-> None, time |-> Latest(t)]}
  /\ UNCHANGED <<acked, answers, staged, record, at, intent, floor, values, asked>>

Die(t) ==
  /\ coord[t] \in {"sent", "late", "told"}
  /\ coord' = [coord EXCEPT ![t] = "dead"]
  /\ UNCHANGED <<acked, msgs, answers, staged, record, at, intent, floor, values, asked>>

(* The ranges. *)

DeliverStage(m) ==
  /\ m.kind = "stage"
  /\ msgs' = msgs \ {m}
  /\ IF record[m.txn] = None
     THEN /\ record' = [record EXCEPT ![m.txn] = "staging"]
          /\ at' = [at EXCEPT ![m.txn] = m.time]
          /\ staged' = [staged EXCEPT ![m.txn] = TRUE]
     ELSE UNCHANGED <<record, at, staged>> \* somebody has aborted it: refused
  /\ UNCHANGED <<coord, acked, answers, intent, floor, values, asked>>

DeliverWrite(m) == \* waits while another transaction's intent is there
  /\ m.kind = "write"
  /\ intent[m.key].txn = None
  /\ LET time == Max(m.time, floor[m.key] + 1) IN
       /\ time <= MaxTime
       /\ intent' = [intent EXCEPT ![m.key] = [txn |-> m.txn, time |-> time]]
       /\ answers' = [answers EXCEPT ![m.txn] = @ \cup {[key |-> m.key, time |-> time]}]
  /\ msgs' = msgs \ {m}
  /\ UNCHANGED <<coord, acked, staged, record, at, floor, values, asked>>

DeliverCommit(m) ==
  /\ m.kind = "commit"
  /\ msgs' = msgs \ {m}
  /\ IF record[m.txn] \in {None, "staging"}
     THEN /\ record' = [record EXCEPT ![m.txn] = "committed"]
          /\ at' = [at EXCEPT ![m.txn] = m.time]
          /\ acked' = IF coord[m.txn] = "late" THEN acked \cup {m.txn} ELSE acked
     ELSE UNCHANGED <<record, at, acked>>
  /\ UNCHANGED <<coord, answers, staged, intent, floor, values, asked>>

Resolve(k) ==
  /\ intent[k].txn # None
  /\ record[intent[k].txn] \in {"committed", "aborted"}
  /\ values' = IF record[intent[k].txn] = "committed" THEN [values EXCEPT ![k] = @ \cup {intent[k].txn}] ELSE values
  /\ floor' = [floor EXCEPT ![k] = Max(@, intent[k].time)] \* the next version is later
  /\ intent' = [intent EXCEPT ![k] = NoIntent]
  /\ UNCHANGED <<coord, acked, msgs, answers, staged, record, at, asked>>

Read(k) == \* somebody reads the key at the time at which transactions begin
  /\ intent[k].txn = None
  /\ floor[k] < Begins
  /\ floor' = [floor EXCEPT ![k] = Begins]
  /\ UNCHANGED <<coord, acked, msgs, answers, staged, record, at, intent, values, asked>>

(* Observers. *)

AbortUnrecorded(t) == \* commit.CR2: whoever takes it for dead writes the record first
  /\ coord[t] # "idle" /\ record[t] = None
  /\ record' = [record EXCEPT ![t] = "aborted"]
  /\ UNCHANGED <<coord, acked, msgs, answers, staged, at, intent, floor, values, asked>>

StartRecovery(o, t) ==
  /\ record[t] = "staging" /\ asked[o][t].state = "idle"
  /\ asked' = [asked EXCEPT ![o][t] = [state |-> "asking", time |-> at[t], found |-> {}, missing |-> FALSE]]
  /\ UNCHANGED <<coord, acked, msgs, answers, staged, record, at, intent, floor, values>>

Ask(o, t, k) ==
  LET a == asked[o][t] IN
  /\ a.state = "asking" /\ ~a.missing /\ k \notin a.found
  /\ IF intent[k].txn = t /\ intent[k].time <= a.time
     THEN /\ asked' = [asked EXCEPT ![o][t].found = @ \cup {k}]
          /\ UNCHANGED floor
     ELSE /\ asked' = [asked EXCEPT ![o][t].missing = TRUE]
          /\ floor' = IF Prevent THEN [floor EXCEPT ![k] = Max(@, a.time)] ELSE floor
  /\ UNCHANGED <<coord, acked, msgs, answers, staged, record, at, intent, values>>

Decide(o, t) ==
  LET a == asked[o][t] IN
  /\ a.state = "asking" /\ (a.missing \/ a.found = Keys)
  /\ asked' = [asked EXCEPT ![o][t].state = "done"]
  /\ record' = IF record[t] = "staging" /\ at[t] = a.time
               THEN [record EXCEPT ![t] = IF a.missing THEN "aborted" ELSE "committed"] ELSE record
  /\ UNCHANGED <<coord, acked, msgs, answers, staged, at, intent, floor, values>>

Next ==
  \/ \E t \in Txns : Send(t) \/ Tell(t) \/ Explicit(t) \/ Die(t) \/ AbortUnrecorded(t)
  \/ \E m \in msgs : DeliverStage(m) \/ DeliverWrite(m) \/ DeliverCommit(m)
  \/ \E k \in Keys : Resolve(k) \/ Read(k)
  \/ \E o \in Observers, t \in Txns : StartRecovery(o, t) \/ Decide(o, t) \/ \E k \in Keys : Ask(o, t, k)

Spec == Init /\ [][Next]_vars

(* What must hold. *)

There(t, k) == t \in values[k] \/ intent[k].txn = t

\* I2: a committed transaction is wholly there, and what others can read is of committed transactions only.
Atomic == /\ \A t \in Txns : record[t] = "committed" => \A k \in Keys : There(t, k)
          /\ \A k \in Keys : \A t \in values[k] : record[t] = "committed"

\* I1: what the client heard of is committed, or will be found so by whoever looks.
Durable == \A t \in acked : /\ record[t] \in {"staging", "committed"}
                            /\ \A k \in Keys : There(t, k)
                            /\ record[t] = "staging" => \A k \in Keys : intent[k].txn = t /\ intent[k].time <= at[t]

\* commit.CR1: final statuses are final.
Final == [][\A t \in Txns : record[t] \in {"committed", "aborted"} => record'[t] = record[t]]_vars
=============================================================================
