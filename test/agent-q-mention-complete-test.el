;;; agent-q-mention-complete-test.el --- Tests of completing mentions  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Kinds of mentions and what they name are completed, from Emacs, the core and the image;
;; what is still to come is said and waited for by nobody.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-mention)
(require 'agent-q-test-tools)
(require 'agent-q-chat-send)
(require 'agent-q-completion)

(defun agent-q-mention-complete-test--candidates ()
  "Return what completion at point offers, without text properties."
  (pcase (agent-q-completion)
    (`(,start ,_ ,table . ,_)
     (agent-q-test-completions (buffer-substring-no-properties start (point)) table))))

(defun agent-q-mention-complete-test--type (text)
  "Put TEXT at the prompt, with point behind it."
  (agent-q-prompt-replace text)
  (goto-char (point-max)))

(ert-deftest agent-q-mention-completes-kinds-and-files ()
  (agent-q-test-mention-in-project
    (write-region "" nil (expand-file-name "my notes.txt" project) nil 'silent)
    (write-region "" nil (expand-file-name ".env" project) nil 'silent)
    (agent-q-mention-complete-test--type "see @")
    (should (member "file:" (agent-q-mention-complete-test--candidates)))
    (should (member "error" (agent-q-mention-complete-test--candidates)))
    (agent-q-mention-complete-test--type "see @de")
    (should (equal '("definition") (agent-q-mention-complete-test--candidates)))
    (dolist (text '("me@fi" ",@bo" "no mention" "@nothing:x" "@file hello" "@file:a\nb"))
      (agent-q-mention-complete-test--type text)
      (should-not (agent-q-completion)))
    (agent-q-mention-complete-test--type "see @file:")
    (agent-q-test-until (agent-q-mention-complete-test--candidates))
    (should (equal '("\"my notes.txt\"" "bank.asd" "src/bank.lisp")
                   (sort (agent-q-mention-complete-test--candidates) #'string<)))
    ;; By a part of the name, whatever the case.
    (agent-q-mention-complete-test--type "see @file:BANK.L")
    (should (equal '("src/bank.lisp") (agent-q-mention-complete-test--candidates)))
    (completion-at-point)
    (should (equal "see @file:src/bank.lisp " (agent-q-prompt-text)))
    (agent-q-completion-mark)
    (let ((mark (seq-find (lambda (overlay) (overlay-get overlay 'agent-q-mention))
                          (overlays-in agent-q-prompt-start (point-max)))))
      (should (equal "@file:src/bank.lisp"
                     (buffer-substring (overlay-start mark) (overlay-end mark))))
      (should (equal " (39 B)" (substring-no-properties (overlay-get mark 'after-string)))))
    (agent-q-mention-complete-test--type "see @file:\"my")
    (should (equal '("\"my notes.txt\"") (agent-q-mention-complete-test--candidates)))
    (agent-q-compose)
    (unwind-protect
        (progn
          (goto-char (point-max))
          (insert " and @file:ba")
          (should (member "bank.asd" (agent-q-mention-complete-test--candidates))))
      (with-current-buffer (current-buffer)
        (erase-buffer)
        (kill-buffer)))))

(defun agent-q-mention-complete-test--notes ()
  "Return what completion at point shows: conses of candidate and note."
  (pcase (agent-q-completion)
    (`(,start ,_ ,table . ,_)
     (let ((annotate (completion-metadata-get
                      (completion-metadata "" table nil) 'annotation-function)))
       (mapcar (lambda (name) (cons (substring-no-properties name) (funcall annotate name)))
               (all-completions (buffer-substring-no-properties start (point)) table))))))

(ert-deftest agent-q-mention-candidates-have-notes-below-each-other ()
  (agent-q-test-mention-in-project
    (agent-q-mention-complete-test--type "see @")
    (let ((notes (agent-q-mention-complete-test--notes)))
      (should (equal '("file:" "buffer:" "region" "definition" "symbol:" "error" "repl" "diff"
                       "notes" "package:" "system:" "map")
                     (mapcar #'car notes)))
      (pcase-dolist (`(,name . ,note) notes)
        (ert-info (name)
          (should (string-match "\\`  +\\([^ ].*\\)\\'" note))
          (should (= 12 (+ (length name) (match-beginning 1))))
          (should (< (+ (length name) (length note)) 80))))
      (should (string-suffix-p "  the last error, with its frames" (cdr (assoc "error" notes)))))
    (agent-q-mention-complete-test--type "see @file:")
    (agent-q-test-until (agent-q-mention-complete-test--notes))
    ;; Nothing is to be said of a file.
    (should (equal '("src/bank.lisp") (assoc "src/bank.lisp" (agent-q-mention-complete-test--notes))))))

(ert-deftest agent-q-mention-that-is-not-finished-is-left-as-it-is ()
  "A space is put behind one that is, unless there is one or more is to come."
  (agent-q-test-mention-in-project
    (cl-flet ((exit (typed name status &optional behind)
                (agent-q-mention-complete-test--type typed)
                (pcase-let* ((`(,start ,end ,_ . ,properties) (agent-q-completion)))
                  (delete-region start end)
                  (insert name)
                  (save-excursion (insert (or behind "")))
                  (funcall (plist-get properties :exit-function) name status)
                  (agent-q-prompt-text))))
      (dolist (status '(exact sole unknown nil))
        (should (equal "see @error" (exit "see @er" "error" status)))
        (should (equal "see @file:a.lisp" (exit "see @file:a." "a.lisp" status))))
      (should (equal "see @error " (exit "see @er" "error" 'finished)))
      (should (equal "see @file:" (exit "see @fi" "file:" 'finished)))
      (should (equal "see @file:a.lisp " (exit "see @file:a." "a.lisp" 'finished)))
      (should (equal "see @error here" (exit "see @er" "error" 'finished " here")))
      (should (equal "see @file:a.lisp here" (exit "see @file:a." "a.lisp" 'finished " here"))))))

(defmacro agent-q-mention-complete-test--saying (said &rest body)
  "Run BODY as TAB does, with the last message in SAID, but for those of clients."
  (declare (indent 1) (debug t))
  `(let ((,said nil) (this-command 'agent-q-chat-view-tab))
     (cl-letf (((symbol-function 'message)
                (lambda (format &rest arguments)
                  (when (and format (not (string-match-p "history file\\|\\[sly\\]" format)))
                    (setq ,said (apply #'format format arguments))))))
       ,@body)))

(ert-deftest agent-q-mention-completion-says-why-there-is-nothing-yet ()
  (agent-q-test-mention-in-project
    (agent-q-mention-complete-test--saying said
      (agent-q-mention-complete-test--type "see @file:")
      (agent-q-completion)
      (agent-q-test-until said)
      (should (equal "Waiting for the files of the project..." said))
      (dolist (text '("see @symbol:mapc" "see @package:" "see @system:as"))
        (setq said nil)
        (agent-q-mention-complete-test--type text)
        (agent-q-completion)
        (agent-q-test-until said)
        (should (equal "Nothing to offer: no Lisp image is connected; M-x sly or M-x slime starts one"
                       said)))
      ;; Nobody asked: a package completes while something is typed.
      (setq said nil
            this-command 'self-insert-command)
      (agent-q-completion)
      (accept-process-output nil 0.05)
      (should-not said))))

(ert-deftest agent-q-mention-of-a-file-needs-no-kind ()
  "What begins no kind is looked for in the names of files."
  (agent-q-test-mention-in-project
    (dolist (typed '("see @bank.l" "see @src/b" "see @BANK.l"))
      (agent-q-mention-complete-test--type typed)
      (agent-q-test-until (equal '("file:src/bank.lisp") (agent-q-mention-complete-test--candidates))))
    (agent-q-mention-complete-test--type "see @nk.li")
    (completion-at-point)
    (should (equal "see @file:src/bank.lisp " (agent-q-prompt-text)))
    (agent-q-mention-complete-test--type "see @b")
    (should (equal '("buffer:") (agent-q-mention-complete-test--candidates)))
    (agent-q-mention-complete-test--type "see @nothing-like-it")
    (should-not (agent-q-mention-complete-test--candidates))))

(ert-deftest agent-q-mention-is-marked-with-the-size-of-what-is-meant ()
  (agent-q-test-mention-in-project
    (let ((buffer (find-file-noselect (expand-file-name "src/bank.lisp" project))))
      (unwind-protect
          (progn
            (switch-to-buffer buffer)
            (switch-to-buffer chat)
            (agent-q-mention-complete-test--type
             "@file, @buffer, @file:src/bank.lisp, @file:none, @file:/ssh:x@y:/z, @error and (@region)")
            (agent-q-completion-mark)
            (should (equal '(("@file" . " (39 B)") ("@buffer" . " (39 B)")
                             ("@file:src/bank.lisp" . " (39 B)") ("@file:none")
                             ("@file:/ssh:x@y:/z") ("@error") ("@region"))
                           (mapcar
                            (lambda (mark)
                              (let ((size (overlay-get mark 'after-string)))
                                (cons (buffer-substring-no-properties (overlay-start mark)
                                                                      (overlay-end mark))
                                      (and size (substring-no-properties size)))))
                            (sort (seq-filter (lambda (overlay) (overlay-get overlay 'agent-q-mention))
                                              (overlays-in agent-q-prompt-start (point-max)))
                                  (lambda (one other)
                                    (< (overlay-start one) (overlay-start other))))))))
        (kill-buffer buffer)))))

(ert-deftest agent-q-mention-of-a-buffer-is-completed-and-sent-once ()
  "Emacs's own buffers are not offered, and the next message is sent without it."
  (agent-q-test-with-model "{\"turns\":[{\"steps\":[{\"text\":\"A plan.\"}]},{\"steps\":[{\"text\":\"Yes.\"}]}]}"
    (let ((plan (get-buffer-create "aq-plan")) (hidden (get-buffer-create " aq-hidden")))
      (unwind-protect
          (agent-q-test-mention-in-project
            (with-current-buffer plan (insert "First the roof."))
            (agent-q-mention-complete-test--type "see @buffer:aq-")
            (should (equal '("aq-plan") (agent-q-mention-complete-test--candidates)))
            (agent-q-mention-complete-test--type "see @buffer:")
            (should-not (seq-filter (lambda (name) (string-search "aq-hidden" name))
                                    (agent-q-mention-complete-test--candidates)))
            (agent-q-prompt-replace "")
            (agent-q-test-send "Read @buffer:aq-plan")
            (agent-q-test-until (and (agent-q-test-idle-p) (agent-q-test-shows "A plan.")))
            (should (string-match-p "<data-[0-9a-f]+ from=\"[^\"]*aq-plan[^\"]*\">\nFirst the roof.\n"
                                    (agent-q-test-last-message)))
            (agent-q-test-send "Is that all?")
            (agent-q-test-until (and (agent-q-test-idle-p) (agent-q-test-shows "Yes.")))
            (should-not (string-search "First the roof." (agent-q-test-last-message))))
        (kill-buffer plan)
        (kill-buffer hidden)))))

(agent-q-test-tools-on-each mention-completes-names-of-the-image ()
  "Names come from the image, without waiting for it, and what came is narrowed here."
  (dolist (form '("(defpackage :aq-till (:use :cl) (:export #:pay-out #:pay-in))"
                  "(defun aq-till::pay-out () 1)" "(defun aq-till::pay-in () 1)"
                  "(defun aq-till::pay-hidden () 1)"))
    (agent-q-test-image-eval connection form))
  (agent-q-mention-complete-test--type "see @symbol:pay-o")
  (should-not (agent-q-mention-complete-test--candidates))
  (agent-q-test-until (agent-q-mention-complete-test--candidates))
  (should (member "aq-till:pay-out" (agent-q-mention-complete-test--candidates)))
  (agent-q-mention-complete-test--type "see @symbol:aq-till:pay")
  (agent-q-test-until (agent-q-mention-complete-test--candidates))
  (should (equal '("aq-till:pay-hidden" "aq-till:pay-in" "aq-till:pay-out")
                 (sort (agent-q-mention-complete-test--candidates) #'string<)))
  (agent-q-mention-complete-test--type "see @symbol:aq-till:pay-i")
  (should (equal '("aq-till:pay-in") (agent-q-mention-complete-test--candidates)))
  (agent-q-mention-complete-test--type "see @package:aq-ti")
  (agent-q-test-until (agent-q-mention-complete-test--candidates))
  (should (equal '("aq-till") (agent-q-mention-complete-test--candidates))))

(agent-q-test-tools-on-each mention-asks-an-image-again-that-did-not-answer ()
  "While it is asked, that is said; an answer that did not come is no answer."
  (let ((query (symbol-function 'agent-q-image-query)) (lost nil))
    (agent-q-mention-complete-test--saying said
      (cl-letf (((symbol-function 'agent-q-image-query)
                 (lambda (_connection _operation _arguments function &rest _) (setq lost function))))
        (agent-q-mention-complete-test--type "see @symbol:multiple-value-b")
        (agent-q-completion)
        (agent-q-test-until said)
        (should (equal "Waiting for the image..." said))
        (funcall lost nil "lost" nil)))
    (should (eq query (symbol-function 'agent-q-image-query)))
    (agent-q-test-until (equal '("multiple-value-bind") (agent-q-mention-complete-test--candidates)))))

(provide 'agent-q-mention-complete-test)
;;; agent-q-mention-complete-test.el ends here
