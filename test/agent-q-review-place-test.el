;;; agent-q-review-place-test.el --- Tests of edits shown in place  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Edits that wait, shown in the buffers of their files and answered there by keys; what is
;; on the disk afterwards is compared byte for byte.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)
(require 'agent-q-approval)
(require 'agent-q-ask)
(require 'agent-q-review)
(require 'agent-q-review-place)
(require 'cl-lib)

(defconst agent-q-review-place-test--bank
  "(in-package :bank)

(defun transfer (from to amount)
  \"Move AMOUNT.\"
  (decf (balance from) amount)
  (incf (balance to) amount))

(defun one () 1)

(defun two () 2)

(defun three () 3)

(defun four ()
  \"Four.\"
  4)
"
  "A file of some definitions.")

(defun agent-q-review-place-test--edited ()
  "Return the file as it is to become."
  (string-replace
   "4)" "(+ 1 3))"
   (string-replace "  (decf (balance from) amount)\n"
                   "  (check-type amount (real 0))\n  (decf (balance from :usd) amount)\n"
                   agent-q-review-place-test--bank)))

(defvar agent-q-review-place-test--colors t "Whether the terminal has colours.")

(defvar agent-q-review-place-test--file nil "The file that a test edits.")

(defun agent-q-review-place-test--disk ()
  "Return the file of the test, byte for byte."
  (with-temp-buffer
    (let ((coding-system-for-read 'utf-8-unix))
      (insert-file-contents agent-q-review-place-test--file))
    (buffer-string)))

(defun agent-q-review-place-test--calls (original modified)
  "Return the calls that make MODIFIED of ORIGINAL."
  (vconcat
   (mapcar (pcase-lambda (`(,old . ,new))
             `(:name "propose_file_edit"
               :arguments (:path "bank.lisp" :original ,old :modified ,new :description "x")))
           (if (stringp modified) (list (cons original modified)) modified))))

(defmacro agent-q-review-place-test--with (original modified &rest body)
  "Run BODY where an edit of a file from ORIGINAL to MODIFIED waits.
MODIFIED may be a list, of pairs of texts that are to be replaced at once.
The file is visited in the selected window, its buffer is `source'; the chat is
`chat' and in none."
  (declare (indent 2) (debug t))
  `(let* ((original ,original)
          (directory (file-name-as-directory
                      (file-truename (make-temp-file
                                      (expand-file-name "project" agent-q-test-directory) t))))
          (default-directory directory)
          (agent-q-offered-tools 'all)
          (agent-q-review-place-test--file (expand-file-name "bank.lisp" directory)))
     (let ((coding-system-for-write 'utf-8-unix))
       (write-region original nil agent-q-review-place-test--file nil 'silent))
     (agent-q-events-ensure)
     (agent-q-core-register-builtin "propose_file_edit")
     (save-window-excursion
       (let ((source (find-file-noselect agent-q-review-place-test--file))
             (inhibit-message t))
         (unwind-protect
             (agent-q-test-with-model
                 (agent-q-json-encode
                  `(:turns [(:steps [(:tool_calls
                                      ,(agent-q-review-place-test--calls original ,modified))])
                            (:steps [(:text "Done.")])]))
               (agent-q-test-with-chat
                 (delete-other-windows)
                 (switch-to-buffer source)
                 (cl-letf (((symbol-function 'display-color-p)
                            (lambda (&rest _) agent-q-review-place-test--colors)))
                   (with-current-buffer chat
                     (agent-q-test-send "change it")
                     (agent-q-test-arm))
                   (agent-q-review-place-test--await source)
                   (with-current-buffer source
                     ,@body))))
           (when (buffer-live-p source)
             (with-current-buffer source
               (set-buffer-modified-p nil)
               (kill-buffer source))))))))

(defun agent-q-review-place-test--await (source)
  "Wait until keys count on an edit that is shown in SOURCE, if one is."
  (with-current-buffer source
    (when agent-q-review-place-mode
      (agent-q-review-place-first)
      (agent-q-test-until (and agent-q-review-place-mode
                               (eq (key-binding "y") #'agent-q-review-place-accept)
                               (eq t agent-q-review-place--armed))))))

(defun agent-q-review-place-test--shown ()
  "Return what this buffer shows, with what goes in [-brackets-], as text."
  (let ((text "") (points nil))
    (dolist (overlay (overlays-in (point-min) (point-max)))
      (dolist (place (list (list (overlay-start overlay) 1 (overlay-get overlay 'before-string))
                           (list (overlay-end overlay) 0 (overlay-get overlay 'after-string))
                           (and (eq 'agent-q-gone (overlay-get overlay 'face))
                                (< (overlay-start overlay) (overlay-end overlay))
                                (list (overlay-start overlay) 2 "[-"))
                           (and (eq 'agent-q-gone (overlay-get overlay 'face))
                                (< (overlay-start overlay) (overlay-end overlay))
                                (list (overlay-end overlay) -1 "-]"))))
        (when (nth 2 place)
          (push (append place (list (or (overlay-get overlay 'priority) 0))) points))))
    (let ((from (point-min)))
      (pcase-dolist (`(,place ,_ ,string . ,_)
                     (sort points (lambda (a b)
                                    (cond ((/= (car a) (car b)) (< (car a) (car b)))
                                          ((/= (cadr a) (cadr b)) (< (cadr a) (cadr b)))
                                          (t (< (nth 3 a) (nth 3 b)))))))
        (setq text (concat text (buffer-substring-no-properties from place)
                           (substring-no-properties string))
              from place))
      (concat text (buffer-substring-no-properties from (point-max))))))

(defun agent-q-review-place-test--end (chat)
  "Wait until the turn of CHAT is over and return its last tool call."
  (with-current-buffer chat
    (agent-q-test-until (agent-q-test-idle-p))
    (car (hash-table-values agent-q-call-table))))

(ert-deftest agent-q-place-an-edit-is-shown-where-it-will-be ()
  (agent-q-review-place-test--with agent-q-review-place-test--bank
      (agent-q-review-place-test--edited)
    (should agent-q-review-place-mode)
    (should (equal (string-replace
                    "  4)\n" "2/2 y accept, k reject\n[-  4)\n-]  (+ 1 3))\n"
                    (string-replace
                     "  (decf (balance from) amount)\n"
                     "1/2 y accept, k reject\n[-  (decf (balance from) amount)\n-]  (check-type amount (real 0))\n  (decf (balance from :usd) amount)\n"
                     agent-q-review-place-test--bank))
                   (agent-q-review-place-test--shown)))
    ;; No key is in the text, and no diff is in a window.
    (should (equal original (buffer-string)))
    (should (= 1 (length (window-list))))
    (should (string-match-p "Edit, 2 of 2 hunks left .*y accept"
                            (eval (cadr header-line-format) t)))
    ;; Its colours are those of the mode; words that came are marked.
    (let* ((new (seq-some (lambda (overlay) (overlay-get overlay 'after-string))
                          (overlays-in (point) (1+ (point)))))
           (faces (lambda (text) (ensure-list (get-text-property (string-search text new) 'face new)))))
      (should (memq 'diff-refine-added (funcall faces ":usd")))
      (should-not (memq 'diff-refine-added (funcall faces "balance")))
      (should (memq 'font-lock-builtin-face (funcall faces ":usd")))
      (should (memq 'diff-added (funcall faces ":usd"))))
    (agent-q-test-press "n")
    (should (looking-at "  4)"))
    (should-error (agent-q-test-press "n") :type 'user-error)
    (agent-q-test-press "p")
    (should (looking-at "  (decf"))))

(ert-deftest agent-q-place-hunks-are-answered-one-by-one ()
  (agent-q-review-place-test--with agent-q-review-place-test--bank
      (agent-q-review-place-test--edited)
    (agent-q-test-press "k")
    (should (string-search "1/2 rejected\n  (decf" (agent-q-review-place-test--shown)))
    (should (looking-at "  4)"))
    ;; A key that repeats answers one hunk.
    (should-error (agent-q-test-press "y") :type 'user-error)
    (agent-q-review-place-test--await source)
    (agent-q-test-press "y")
    (should-not agent-q-review-place-mode)
    (let ((call (agent-q-review-place-test--end chat)))
      (should (string-search "applied 1 of 2 hunks; hunk 1 (@@ -2,7 +2,8 @@" (agent-q-call-content call))))
    (should (equal (string-replace "4)" "(+ 1 3))" original) (agent-q-review-place-test--disk)))
    (should-not (overlays-in (point-min) (point-max)))
    (should-not (local-variable-p 'header-line-format))))

(ert-deftest agent-q-place-all-can-be-taken-or-rejected-at-once ()
  (agent-q-review-place-test--with agent-q-review-place-test--bank
      (agent-q-review-place-test--edited)
    (agent-q-test-press "C-c C-c")
    (agent-q-review-place-test--end chat)
    (should (equal (agent-q-review-place-test--edited) (agent-q-review-place-test--disk))))
  (agent-q-review-place-test--with agent-q-review-place-test--bank
      (agent-q-review-place-test--edited)
    (agent-q-test-press "k")
    (agent-q-review-place-test--await source)
    (agent-q-test-press "C-c C-c")
    (agent-q-review-place-test--end chat)
    (should (equal (string-replace "4)" "(+ 1 3))" original) (agent-q-review-place-test--disk))))
  (dolist (key '("C-c C-k" "C-g"))
    (agent-q-review-place-test--with agent-q-review-place-test--bank
        (agent-q-review-place-test--edited)
      (agent-q-test-press key)
      (should (eq 'denied (agent-q-call-state (agent-q-review-place-test--end chat))))
      (should (equal original (agent-q-review-place-test--disk)))
      (should-not agent-q-review-place-mode))))

(ert-deftest agent-q-place-keys-are-text-elsewhere-and-while-the-text-changes ()
  (agent-q-review-place-test--with agent-q-review-place-test--bank
      (agent-q-review-place-test--edited)
    (let ((on (point)) (text (buffer-string)))
      ;; Others would change what the edit stands on.
      (dolist (key '("x" "RET" "DEL"))
        (should-error (agent-q-test-press key) :type 'user-error))
      (should (equal text (buffer-string)))
      (goto-char (point-min))
      (should (eq (key-binding "y") #'self-insert-command))
      (goto-char on)
      (let ((this-command #'self-insert-command))
        (insert ";"))
      (should (eq (key-binding "y") #'self-insert-command)))))

(ert-deftest agent-q-place-a-key-for-an-edit-that-went-is-no-text ()
  (dolist (end (list (lambda (chat _) (with-current-buffer chat (agent-q-core-cancel agent-q-session-number)))
                     (lambda (chat _) (with-current-buffer chat (agent-q-test-answer "n")))
                     (lambda (_ _) (agent-q-test-press "C-c C-c"))
                     (lambda (_ file)
                       (write-region "(other)\n" nil file nil 'silent)
                       (revert-buffer t t))))
    (agent-q-review-place-test--with agent-q-review-place-test--bank
        (agent-q-review-place-test--edited)
      (funcall end chat agent-q-review-place-test--file)
      (agent-q-test-until (and agent-q-review-place--end-guard
                               (eq agent-q-review-place--late-in (current-buffer))))
      (let ((text (buffer-string)))
        (dolist (key '("y" "k" "d"))
          (should-error (agent-q-test-press key) :type 'user-error))
        (should (equal text (buffer-string)))
        ;; A key for the next request is no key for that edit.
        (with-current-buffer chat
          (should-not (eq #'agent-q-review-place-too-late (key-binding "y")))))
      (agent-q-test-until (null agent-q-review-place--end-guard))
      (agent-q-test-until (not agent-q-review-place-mode))
      (should (eq (key-binding "y") #'self-insert-command)))))

(ert-deftest agent-q-place-what-changes-under-an-edit-is-shown-again ()
  (agent-q-review-place-test--with agent-q-review-place-test--bank
      (agent-q-review-place-test--edited)
    (agent-q-test-press "k")
    (goto-char (point-min))
    (insert ";; New.\n\n")
    (save-buffer)
    (agent-q-review-place-test--await source)
    ;; What was answered stays so.
    (should (looking-at "  4)"))
    (should (string-search "1/2 rejected" (agent-q-review-place-test--shown)))
    ;; A buffer that is reverted has no mode for a moment.
    (write-region (concat "; Newer.\n" (buffer-string)) nil agent-q-review-place-test--file nil 'silent)
    (revert-buffer t t)
    (agent-q-test-until agent-q-review-place-mode)
    (agent-q-review-place-test--await source)
    (should (looking-at "  4)"))
    (agent-q-test-press "y")
    (agent-q-review-place-test--end chat)
    (should (equal (concat "; Newer.\n;; New.\n\n" (string-replace "4)" "(+ 1 3))" original))
                   (agent-q-review-place-test--disk)))))

(ert-deftest agent-q-place-an-edit-that-fits-no-more-goes ()
  (agent-q-review-place-test--with agent-q-review-place-test--bank
      (agent-q-review-place-test--edited)
    (goto-char (point-max))
    (search-backward "4)")
    (insert "4")
    (agent-q-review-place-test--end chat)
    (should-not agent-q-review-place-mode)
    (should-not (overlays-in (point-min) (point-max)))))

(ert-deftest agent-q-place-a-stale-text-is-never-changed ()
  (agent-q-review-place-test--with agent-q-review-place-test--bank
      (agent-q-review-place-test--edited)
    (let ((inhibit-modification-hooks t))
      (save-excursion (goto-char (point-min)) (insert ";; New.\n")))
    (should-error (agent-q-test-press "C-c C-c") :type 'user-error)
    (should (agent-q-call-open-p (with-current-buffer chat (agent-q-call-waiting))))
    (should (equal (concat ";; New.\n" original) (buffer-string)))))

(ert-deftest agent-q-place-a-buffer-that-goes-leaves-the-request ()
  (agent-q-review-place-test--with agent-q-review-place-test--bank
      (agent-q-review-place-test--edited)
    (kill-buffer source)
    (with-current-buffer chat
      (should (agent-q-call-waiting))
      (agent-q-test-arm)
      (goto-char (agent-q-render-item-start (agent-q-call-waiting)))
      ;; The file is visited again.
      (agent-q-test-press "i"))
    (let ((again (find-buffer-visiting agent-q-review-place-test--file)))
      (agent-q-review-place-test--await again)
      (with-current-buffer again
        (should agent-q-review-place-mode)
        (agent-q-test-press "C-c C-c"))
      (agent-q-review-place-test--end chat)
      (should (equal (agent-q-review-place-test--edited) (agent-q-review-place-test--disk)))
      (kill-buffer again))))

(ert-deftest agent-q-place-narrowed-buffers-work ()
  (agent-q-review-place-test--with agent-q-review-place-test--bank
      (agent-q-review-place-test--edited)
    (goto-char (point-min))
    (narrow-to-region (point-min) (line-end-position))
    (agent-q-review-place-first)
    (should (looking-at "  (decf"))
    (agent-q-test-press "d")
    (should-not agent-q-review-place-mode)
    (should (derived-mode-p 'agent-q-review-mode))
    (set-buffer source)
    (narrow-to-region (point-min) (+ 5 (point-min)))
    (with-current-buffer chat
      (agent-q-review-place-visit (agent-q-call-review (agent-q-call-waiting))))
    (agent-q-review-place-test--await source)
    (should (looking-at "  (decf"))
    (agent-q-test-press "C-g")
    (agent-q-review-place-test--end chat)
    (should (equal original (agent-q-review-place-test--disk)))))

(ert-deftest agent-q-place-a-buffer-that-became-read-only-is-left-alone ()
  (agent-q-review-place-test--with agent-q-review-place-test--bank
      (agent-q-review-place-test--edited)
    (setq buffer-read-only t)
    (agent-q-test-press "C-c C-c")
    (let ((call (agent-q-review-place-test--end chat)))
      (should (string-search "read-only" (agent-q-call-content call))))
    (should (equal original (buffer-string)))
    (should-not agent-q-review-place-mode)))

(ert-deftest agent-q-place-what-can-t-be-seen-in-place-is-a-diff ()
  (dolist (modified (list (string-replace "1)" "\u202e1)" agent-q-review-place-test--bank)
                          (concat agent-q-review-place-test--bank (make-string 200 ?\n))))
    (agent-q-review-place-test--with agent-q-review-place-test--bank modified
      (should-not agent-q-review-place-mode)
      (with-current-buffer chat
        (should-error (agent-q-review-place-visit (agent-q-call-review (agent-q-call-waiting)))
                      :type 'user-error)
        (should (buffer-live-p (agent-q-call-review (agent-q-call-waiting))))))))

(ert-deftest agent-q-place-carriage-returns-and-a-missing-end-of-line-stay ()
  (agent-q-review-place-test--with "(a)\r\n(b)\r\n(c)" "(a)\r\n(bb)\r\n(c)\r\n(d)"
    (should (equal "(a)\n1/1 y accept, k reject\n[-(b)\n(c)-]\n(bb)\n(c)\n(d)\n"
                   (agent-q-review-place-test--shown)))
    (agent-q-test-press "y")
    (agent-q-review-place-test--end chat)
    (should (equal "(a)\r\n(bb)\r\n(c)\r\n(d)" (agent-q-review-place-test--disk)))))

(ert-deftest agent-q-place-one-edit-of-a-file-waits-for-the-other ()
  (agent-q-review-place-test--with agent-q-review-place-test--bank
      '(("(defun one () 1)\n" . "(defun one () 11)\n")
        ("(defun one () 1)\n\n(defun two () 2)" . "(defun one () 12)\n\n(defun two () 3)")
        ("(defun three () 3)" . "(defun three () 4)"))
    (let ((waiting (with-current-buffer chat (agent-q-call-all-waiting))))
      (should (= 3 (length waiting)))
      (should (looking-at "(defun one"))
      (should (string-search "[-(defun one () 1)\n-](defun one () 11)" (agent-q-review-place-test--shown)))
      (should-not (string-search "12" (agent-q-review-place-test--shown)))
      (should-error (agent-q-review-place-visit (agent-q-call-review (nth 1 waiting)))
                    :type 'user-error)
      (switch-to-buffer source)
      (agent-q-test-press "y")
      ;; The second doesn't fit any more, and the third is shown by itself.
      (agent-q-test-until (and agent-q-review-place-mode
                               (string-search "(defun three () 4)" (agent-q-review-place-test--shown))))
      (agent-q-review-place-test--await source)
      (agent-q-test-press "y")
      (agent-q-review-place-test--end chat)
      (should (equal (string-replace "one () 1" "one () 11"
                                     (string-replace "three () 3" "three () 4" original))
                     (agent-q-review-place-test--disk))))))

(ert-deftest agent-q-place-a-rewrite-shows-no-chat ()
  (let* ((directory (file-name-as-directory
                     (make-temp-file (expand-file-name "project" agent-q-test-directory) t)))
         (agent-q-review-place-test--file (expand-file-name "bank.lisp" directory))
         (chats (agent-q-session-buffers))
         (inhibit-message t))
    (write-region "" nil (expand-file-name "bank.asd" directory) nil 'silent)
    (write-region agent-q-review-place-test--bank nil agent-q-review-place-test--file nil 'silent)
    (agent-q-test-with-model
        (agent-q-json-encode
         '(:turns [(:steps [(:tool_calls [(:name "edit_definition"
                                           :arguments (:path "bank.lisp" :name "two"
                                                       :new_source "(defun two () 22)"))])])
                   (:steps [(:text "Done.")])
                   (:steps [(:text "It is best as it is.")])]))
      (save-window-excursion
        (let ((source (find-file-noselect agent-q-review-place-test--file)))
          (delete-other-windows)
          (switch-to-buffer source)
          (search-forward "two")
          (let ((asked (agent-q-rewrite "more" (agent-q-activity-look-here))))
            (should agent-q-ask-rewriting-mode)
            (should (eq (key-binding (kbd "C-g")) #'agent-q-ask-rewrite-cancel))
            (agent-q-test-until agent-q-review-place-mode)
            (should-not agent-q-ask-rewriting-mode)
            (should (equal (list (selected-window)) (get-buffer-window-list source)))
            (should-not (get-buffer-window asked t))
            ;; Who waited is at the change.
            (should (looking-at "(defun two"))
            (agent-q-review-place-test--await source)
            (agent-q-test-press "y")
            (agent-q-review-place-test--end asked)
            (should (equal (string-replace "() 2" "() 22" agent-q-review-place-test--bank)
                           (agent-q-review-place-test--disk)))
            (with-current-buffer asked
              (should (agent-q-test-shows "> Rewrite two: more\n")))
            ;; Without a change nothing is left of it.
            (goto-char (point-min))
            (search-forward "two")
            (agent-q-rewrite "less" (agent-q-activity-look-here))
            (should agent-q-ask-rewriting-mode)
            (agent-q-test-until (not agent-q-ask-rewriting-mode))
            (should-not (overlays-in (point-min) (point-max)))
            (mapc #'kill-buffer (seq-difference (agent-q-session-buffers) chats)))
          (set-buffer-modified-p nil)
          (kill-buffer source))))))

(ert-deftest agent-q-place-signs-tell-where-there-are-no-colours ()
  (let ((agent-q-review-place-test--colors nil))
    (agent-q-review-place-test--with "(a)\n(b)\n(c)\n" "(a)\n(bb)\n(bbb)\n(c)\n"
      (should (string-match-p "- .*(b)\n-\\][+] (bb)\n[+] (bbb)\n(c)\n\\'"
                              (agent-q-review-place-test--shown))))))

(ert-deftest agent-q-place-five-hundred-hunks-can-be-decided-on ()
  (cl-flet ((text (format)
              (mapconcat (lambda (number)
                           (format (if (zerop (% number 8)) format "(line %d)\n") number))
                         (number-sequence 1 4000) "")))
    (agent-q-review-place-test--with (text "(line %d)\n") (text "(new %d)\n")
      (should (string-search "1/500" (agent-q-review-place-test--shown)))
      (let ((start (float-time))
            (inhibit-message nil))
        (agent-q-test-press "k")
        (message "A decision among 500 hunks takes %.0f ms" (* 1000 (- (float-time) start)))))))

(provide 'agent-q-review-place-test)
;;; agent-q-review-place-test.el ends here
