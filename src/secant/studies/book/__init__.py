"""The textbook of S. Arora and others on the theory of deep learning."""

from secant.lab import Source

SOURCE = Source(
    key="book",
    title="Theory of Deep Learning",
    authors="Sanjeev Arora et al.",
    year=2022,
    chapters={
        "1": "Basic setup and some mathematical notions",
        "2": "Basics of optimisation",
        "3": "Overparametrised linear regression and kernel regression",
        "4": "Backpropagation and its variants",
        "5": "Basics of generalisation theory",
        "6": "Tractable landscapes for nonconvex optimisation",
        "7": "Escaping saddle points",
        "8": "Algorithmic regularisation",
        "9": "Ultra-wide networks and the neural tangent kernel",
        "10": "Interpreting the output: credit attribution",
        "11": "Inductive biases due to algorithmic regularisation",
        "12": "Approximating stochastic gradient descent by a differential equation",
        "13": "Effect of normalisation",
        "14": "Unsupervised learning: distribution learning",
        "15": "Language models",
        "16": "Generative adversarial networks",
        "17": "Self-supervised learning",
        "18": "Adversarial examples",
    },
    folders={str(chapter): f"ch{chapter:02}" for chapter in range(1, 19)}
    | {"2.5": "ch02_5", "8.1": "ch08_1", "8.3": "ch08_3", "12.3": "ch12_3", "12.4": "ch12_4", "13.4": "ch13_4"},
)
