"""What a loop of batches of 32 is told where its looks are taken on parts of them, in JAX and in PyTorch."""


def assert_parts_are_told(watch):
    run = watch.watched
    texts = [text for _, text in run.notes]
    assert len(texts) == 3
    said = "looks at `sharpness` use 8 of 32 samples: on all samples they would come every"
    assert any(said in text for text in texts)
    assert set(run.column("batch")[1]) == {32.0}
    assert watch._account.share < 0.05
