"""A run whose blocks are on several hosts: torchrun starts a process per block, and here they become one run.

host a                                     host b
torchrun (or `repro run --launcher torchrun`)
  rank 0  the command: plans, results        rank 2  serves block 2 --+
    |  `- block 0                              |  `- block 2          |
  rank 1  serves block 1 --+                 rank 3  serves block 3 --+
       `- block 1          |                      `- block 3          |
            rank 0 <-------+--- wire: jobs down; losses, checkpoints up
blocks meet through torchrun's store and talk by gloo or NCCL over one interface of each host
"""
