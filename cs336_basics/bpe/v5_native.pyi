from cs336_basics.bpe.base import BPE_Trainer

class NativeTrainer(BPE_Trainer):
    step_seconds: float
