;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The dangers that a definition carries: what its code reaches for, no matter who calls it. The
;;; watch meets what a call does, but the program may call the definition later, without a watch.

(cl:in-package "AGENT-Q-IMAGE")

(defun carried-dangers ()
  "The hits for what code reaches for, no matter who calls it; how the code is made is met when that
happens."
  (remove-if-not (lambda (hit)
                   (and (member (first hit) '(:reaches :unknown))
                        (or (assoc (second hit) +danger-table+ :test #'string=)
                            (string= (second hit) "uses what is internal to the implementation"))
                        (not (member (second hit) '("runs text as code" "changes how text is read"
                                                  "replaces a definition behind its name")
                                     :test #'string=))))
                 (findings-hits *findings*)))

(defun carried-by (form)
  "A text for each reason to ask before FORM, a definition, is made. The expansions made for this
are used again when it is compiled."
  (call-with-assessment
   (lambda ()
     (let ((expansions (call-keeping-expansions (lambda () (assess-one form)))))
       (when *known*
         (setf (first *known*) (append expansions (first *known*))))
       (setf (findings-hits *findings*) (carried-dangers))
       (hit-texts nil)))))
