"""Leadership in a cluster of brokers, as values: members, leaders of partitions, and the records that count.

All brokers read one ordered log of metadata. Only the controller appends to it, and brokers apply its records later
than they were written. Every broker has a journal of its own, which only the latest generation of its process can
write. Messages to the controller may arrive late, twice, or never.

* C1. A process appends to nothing and answers nothing before it has applied its own NODE record.
* C2. A process appends to a partition only while the metadata that it has applied says so, the OPEN record of the
  partition's epoch is durable in its own journal, and it has not begun to give the partition up.
* C3. A process that has handed a partition over neither appends to it nor reads it until a later PARTITION record. No
  timeout ends this.
* C4. The controller accepts a hand-over of a partition only from the generation of its leader that joined last, and at
  the partition's epoch.
* C5. The journal of a dead broker is fenced before it is read. Records from it count if the generation of the fence is
  later than the broker's last join, and only at the partition's epoch.
* C6. Of a partition, only entries after the OPEN record of its epoch count.

`tests/state/leadership/moves_model.py` explores every history of small clusters with these values. Without any one of
the rules it finds a record that is lost or doubled.
"""
